"""The node: pods bound to this machine become processes in namespaces of their own.

Reading order: agent (what runs), pod_loop (THE POD LOOP), decide (what to do about a pod),
pod_status (its status for the API), pod (a pod as read here); container_start and what it puts
together: env, references, service_account, volumes/; container_stop, probes/; network/ (names and
addresses), machine/ (nodes, GPUs, usage), backend and container_logs (`kubectl logs`, `exec`); then
runtime/ (how pods run) and standalone/ (the programs that outlive the daemon).
"""
