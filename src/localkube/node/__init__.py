"""The node: pods bound to this machine become processes in namespaces of their own.

Reading order: agent (starts everything), pod_loop (THE POD LOOP), decide (the next actions for a
pod), pod_status (its status for the API), pod (the fields that the node reads); container_start and
the parts it combines: env, config_maps_and_secrets, service_account, volumes/; container_stop and
probes/; network/ (names and addresses), machine/ (nodes, GPUs, usage), node_api and
container_log_reader (`kubectl exec`, `kubectl logs`); then runtime/ (how pods run) and standalone/
(the programs that outlive the daemon).
"""
