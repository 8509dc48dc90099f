"""Gangs to nodes: whole or not at all.

Reading order. The cluster: podclass (what decides where a pod may run), nodes, tally, storage and
volumes, joined in snapshot (arrays, with trial and undo). Where: labels, pairing (claims and the
volumes that exist) and near (masks), filters, scores, fill (one class onto nodes), demand and place
(a gang onto a snapshot: a plan, or why not). Who: gangs (the dialects), roster (who is in which
gang), runs, order, turns and parked (who is next, who waits for what). Decisions: entry and state
(everything known), case, decide, rooms and hold (rooms kept), provision (volumes waited for),
remedy, preempt and starvation (when it does not fit), failures (what is known not to fit), trouble
(when no node would do), refusal (when a bind fails), marks (who is being taken down), explain (the
words), actions. What touches the world: loop (THE scheduling loop), bind, takedown (deletions),
report, status and refused, line and waiting (what is published), presence, measures, settings,
service (all of it as a daemon). For commands: account (why one job waits) and rivals.
"""
