"""How pods become processes on this machine, behind one seam (`contract.Runtime`).

Reading order: contract (the seam), namespaces (the runtime in use), sandbox (a pod's namespaces),
rootfs (what a container sees of the file system), network (addresses and links), shims (starting
and asking the supervisors), records (what is on disk: the truth after any crash).
"""
