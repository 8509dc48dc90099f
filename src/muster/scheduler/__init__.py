"""The gang scheduler: every gang gets nodes for all its members, or for none.

Reading order: `cluster` (the cluster as arrays), `gangs` (which pods belong together and which gang
is next), `placement` (where pods could go), `state` (everything known), `decisions` (what to do
about one gang), `effects` (API calls), `loop` (the scheduling loop) and `run` (the daemon).
`name_leases` keeps the leases of its names.
"""
