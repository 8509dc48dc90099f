"""The node: pods bound to this machine become processes in their own namespaces.

Reading order: agent (starts everything), pod_loop (THE POD LOOP), pod_decision (the next actions
for a pod), pod_status (its status for the API), pod (the fields that the node reads);
container_lifecycle (start and stop) and the parts it combines: env_and_files,
config_maps_and_secrets, service_account, volumes; then probes, eviction, log_archive,
log_archive_cleaner; network/ (names and addresses), machine/ (nodes, GPUs, usage), node_api and
container_log_reader (`kubectl exec`, `kubectl logs`); then runtime/ (how pods run) and standalone/
(the programs that outlive the daemon).

Kept apart because `agent` only puts them together and has no part in what they do, though nobody
else imports them: pod_loop, node_api, eviction and log_archive_cleaner. Also kept
apart are pod_status (what the node tells the API about a pod), container_log_reader (the tail,
rotation and following of a log) and pod_events, with which every part of the node reports.
"""
