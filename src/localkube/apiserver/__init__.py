"""A Kubernetes API for one machine, on SQLite.

In reading order:
`server`                  one request from HTTP to answer: begin here
`http/`                   reading a request: path, options, accepted form, body
`access/`                 users, tokens, roles and permissions
`resource_registry`, `resource`  all resources; the names of one resource and the rules of its kind
`kinds/`                  the rules of each kind: defaults, checks, updates, deletion, columns
`verbs`, `subresources`   get, create, patch, delete …; status, scale, binding, eviction, finalize
`schema/`, `patches`, `apply/`  bodies against schemas; patches; server-side apply, field owners
`admission/`              create, update and delete of any kind; names; quota
`codec`, `store/`         objects and bytes; all objects in memory, every write on disk
`views/`                  lists, watch events, tables, discovery, OpenAPI
`streams/`                log, exec, attach and proxy of pods; the interface of the node agent
`follow_up_writes`        writes that follow from other writes
`bootstrap`               the first objects of a cluster
`housekeeping`            compaction, backups, expired events
`api_errors`, `non_resource_paths`  error answers; health, version, discovery and metrics

Kept apart because `server`, which calls most of them, would have three times as many lines as a
module may have. `resource_registry` imports all kinds, and every kind imports `resource`.
"""
