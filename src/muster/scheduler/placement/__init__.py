"""Where pods could go: pure functions over the snapshot's arrays.

`demand` (a question and its answers) goes to `place`, which asks `filters` (where may a class go;
the rules are in `node_rules`, `affinity_and_spread` and `volume_rules`) and `scores` (where should
it go). `domain_search` narrows a demand to one rack, zone or HyperNode; `diagnosis` says why a
trial failed; `failed_demand_cache` saves trials that would fail again.
"""
