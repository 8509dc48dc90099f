"""Muster's objects on a real cluster, pure: values -> manifests.

Reading order: `values` (the choices of whoever installs), `value_checks` (those that cannot work),
`manifests` (all objects, in order), `roles` (rights as RBAC objects), `workloads` (Deployments and
the objects around them). `muster install` applies these objects; the chart in `deploy/chart` gives
the same ones.
"""
