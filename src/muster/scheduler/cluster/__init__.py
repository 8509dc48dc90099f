"""The cluster as arrays, kept current by watch events.

`pod_class` (what decides where a pod may run), `nodes`, `pod_counts` and `volumes` are joined in
`snapshot`, on which placements are tried and undone.
"""
