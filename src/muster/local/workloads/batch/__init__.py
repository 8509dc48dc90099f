"""Jobs that run to completion (batch/v1).

Reading order: indexes (0-3,7), ledger (each ended pod counted once, pure), verdict (whether and why
a job ends, pure), job (what to do next, pure), pods (its pods' manifests, pure), jobs (its
controller).
"""
