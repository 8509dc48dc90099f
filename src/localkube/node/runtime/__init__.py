"""How pods become processes on this machine.

Reading order: container_runtime (the base of both runtimes, which the pod loop calls),
namespace_runtime (the usual one), sandbox (a pod's namespaces), rootfs (the file system of a
container), shim_client (the supervisor of a container), attempts and pod_records (the state on
disk: the truth after any crash), plain_runtime (without namespaces), runtime_choice, cgroups,
processes.
"""
