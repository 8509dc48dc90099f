"""Gangs to nodes: whole or not at all.

Reading order: podclass (what decides where a pod may run), nodes and snapshot (the cluster as
arrays, with trial and undo), filters and scores (where a class may and should go), place (a gang
onto a snapshot: a plan, or why not), gangs (the dialects) and roster (who is in which gang),
order and parked (who is next, who waits for what), hold and preempt (rooms kept, rooms taken),
explain (the words), then the parts that touch the world: loop (THE scheduling loop), bind,
report, service.
"""
