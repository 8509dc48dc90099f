"""Jobs as values: pure functions from manifests and pods to meaning, with no I/O and no clock.

Reading order: job (the internal form of a job), parse (any manifest -> a job) with fields,
run_policy and frameworks/ (parts of manifests),
invalid_job (a job whose manifest does not parse), names (names and labels of a job's objects),
job_status (the status as a struct), pod_status (kubectl's STATUS of a pod, how a pod failed),
job_state (the state of a job in one word, and why), view/ (job and pods -> the view of a person),
build/ (flags of `arena submit` -> manifests).
"""
