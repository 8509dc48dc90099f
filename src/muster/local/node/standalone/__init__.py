"""Programs that outlive the daemon: a pod's first process and the shim of each container.

They import the standard library and one another, nothing else (a test holds this), because one
runs per container and must start in tens of milliseconds. Reading order: shim (the supervisor),
session (exec), pause (the pod's first process), mounts and kernel (what both ask of Linux),
netlink (links and addresses), wire (frames on the shim's socket), crilog (the log's format).
"""
