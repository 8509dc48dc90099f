"""How pods become processes on this machine.

Reading order: container_runtime (the base of both runtimes, which the pod loop calls),
namespace_runtime (the usual one, and how a pod's namespaces are made), rootfs (the file system of a
container), shim_client (the supervisor of a container), pod_records (the state on disk: the truth
after any crash), plain_runtime (without namespaces), runtime_choice, cgroups, cgroup_search,
processes.
"""
