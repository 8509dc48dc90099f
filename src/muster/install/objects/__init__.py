"""Muster's objects on a real cluster, pure: values -> manifests.

Reading order: `values` (the choices of whoever installs), `manifests` (all objects, in order),
`roles` (rights as RBAC objects), `admission_policy` (which jobs the API server rejects),
`priority_policy` (which namespaces may use which PriorityClass). `muster install` applies these
objects; the chart in `deploy/chart` gives the same ones.

Kept apart because its 500 lines are rules in another language, which a reader looks for by name:
`admission_policy`.
"""
