"""Running reconcile functions: a key comes in, reality is made to match it.

Reading order: queue (keys, de-duplicated, delayed, backed off), loop (THE RECONCILE LOOP: the four
outcomes), manager (informers, loops and everything else of a daemon in one task group), tell
(events), measure (what loops tell Prometheus).
"""
