"""Programs that outlive the daemon: a pod's first process and the shim of each container.

They import only the standard library and one another (a test enforces it), because there is one per
container, and it must start in milliseconds. Reading order: fork_server (starts the others), shim
(the supervisor), exec_session, spawn, shim_socket (frames on the shim's socket), stdin, log_writer;
pause (the pod's first process), handshake; linux/ (system calls and netlink); namespace_holder,
open_socket and try_namespaces are small programs of their own.
"""
