"""A Kubernetes API for one machine, on SQLite.

In reading order:
`serve`                   HTTP: begin here
`store` (`log`, `entries`, `watch`)  every write in one table; the present in memory
`registry` (`builtin`)    which kinds there are: the table of built-in ones, and CRDs
`objects`, `structural`   bytes to objects and back; objects and their schemas
`choosing`                label selectors that stand in objects
`status`                  every "no" the server can say
`request/`                what clients send: paths, options, bodies, patches
`verbs`, `subresources`   what requests do: get, create, delete …; scale, binding, finalize …
`admission/`              an object's way in: shape, defaults, rules, what may not change
`quota/`                  what a namespace may take
`views/`                  what readers get: pages, watches, tables, discovery, OpenAPI
`access/`                 who is asking, and what they may do
`backend`, `pods/`        the seam to the node agent; log, exec, attach, proxy, eviction, usage
`bootstrap`, `upkeep`     what a cluster begins with; what follows from a write
`about`, `measures`       health, version, metrics: what the server tells of itself
"""
