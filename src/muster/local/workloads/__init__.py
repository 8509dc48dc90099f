"""The built-in controllers that users of training jobs need, one small control loop each.

Reading order: run (all of them, wired), shapes (what they read), watched (informers and indexes),
belonging (who is whose, pure), expect (what informers do not show yet), hands (what they write),
rollout/ (deployments and replica sets), batch/ (jobs), inventory (everything there is, by the kinds
that discover finds), garbage (collection by owner; ownership is its pure part), namespaces (their
end), endpoints and services (addresses), nodes/ (that go away), authority (kube-root-ca.crt),
claims (volumes).
"""
