"""The job operator: jobs -> pods, services, gangs and status.

Reading order: decision_types (the input of a decision and the writes it can order), decide/ (pure:
job and observed objects -> actions), build/ (manifests of objects of a job), frameworks/ (the rules
of each kind of job), observe/ (informers and our own latest writes), executor (actions -> API
calls), daemon (the control loop). mpi_kubexec runs in launchers of MPI jobs: no module imports it,
and it needs only Python 3.5.
"""
