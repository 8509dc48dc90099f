"""A Kubernetes API for one machine, on SQLite.

In reading order:
`entries`, `log`, `store` every write in one table; the present in memory
`routes`, `registry`      what a path means; which kinds there are (`builtin`, and CRDs)
`objects`, `names`        bytes to objects and back; what may be called what
`bodies`, `protobuf`      what clients send
`status`                  every "no" the server can say
`call`, `verbs`           get, list, create, update, patch, delete
`options`, `selection`, `lists`, `watching` what a reader gets
`screening`, `structural`, `admit`, `defaults`, `policy`, `patch`     an object's way in
`validation`, `immutable` what it may not be, and what may not change
`amounts`, `charges`, `quota`               what a namespace may take
`subresources`, `eviction`                  binding, scale, budgets
`priority`                what a pod gets from its class
`backend`, `streams`, `channels`, `proxy`   the seam to the node agent; log, exec, attach, proxy
`discovery`, `openapi`, `tables`, `columns` for kubectl
`identity`, `access`, `tokens`, `rbac`, `gate`   who is asking, and what they may do
`reviews`                 may I, who am I
`roles`, `bootstrap`, `upkeep`              what a cluster begins with; what follows from a write
`usage`, `measures`       what pods use; what the server tells of itself
`serve`                   HTTP
"""
