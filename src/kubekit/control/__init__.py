"""Running reconcile functions: a key comes in, the cluster is made to match it.

Reading order: work_queue (keys, de-duplicated, delayed, backed off), loop (the reconcile loop and
its four outcomes), manager (informers, loops and background tasks of one daemon), event_recorder
(the one writer of events), metrics.
"""
