"""Looking for what is wrong with Muster on a cluster, and for the smallest fix.

Reading order: `finding` (one result), `facts` (what is read from the cluster), `access` (rights, by
access reviews), the checks, which are pure (`cluster_checks`, `component_checks`, `gang_checks`),
and `examine` (all of them).
"""
