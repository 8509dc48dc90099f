"""Programs that outlive the daemon: a pod's first process and the shim of each container.

They import only the standard library and one another (a test enforces it), because there is one per
container, and it must start in milliseconds. Reading order: fork_server (starts the others), shim
(the supervisor), exec_session, spawn (how a program starts, its input and limits), shim_socket
(frames on the shim's socket); pause (the pod's first process); linux/ (system calls and netlink);
namespace_holder, open_socket and try_namespaces.

Kept apart because each is a separate process that loads nothing else: fork_server, pause,
namespace_holder, open_socket and try_namespaces; `handshake` is what two of them share.
`exec_session` runs in a fork of the shim, but what it does has nothing in common with supervision.
"""
