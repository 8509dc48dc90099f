"""From the flags of `arena submit` to manifests. Pure: the same flags give the same bytes.

Reading order: flags (a field per flag), flag_values (reading single values), roles (the roles of a
job), pod_templates and its parts volumes, code_sync and pod_affinity, job_manifest (the job and all
its objects, TensorBoard's too), scaling (another number of replicas). Wrong values raise UsageError
with the flag and what to write. Values become strings of a JSON document, never text in a template,
so quoting is always right.
"""
