"""The local cluster: a Kubernetes API, a node and a few workload controllers on one machine.

Reading order: home (where its state lives), up (everything wired into one process), then
apiserver/, node/ and controllers/. The operator and the scheduler do not know whether a cluster is
local; the client does where it helps the user.
"""
