"""Looking for what is wrong with Muster on a cluster, and for the smallest fix.

Reading order: `finding` (one result), `facts` (what is read from the cluster), `access` (rights, by
access reviews), `role_objects` (roles and bindings that are gone), the checks, which are pure
(`cluster_checks`, `component_checks`, `gang_checks`) with `repair` (the command that puts things
back), and `examine` (all of them).
"""
