"""A Kubernetes API for one machine, on SQLite.

In reading order:
`server`                  one request from HTTP to answer: begin here
`http/`                   what a request says: path, options, accepted form, body
`access/`                 who the caller is, and what they may do
`registry`, `resource`    all resources; what one resource is, and what is special about its kind
`kinds/`                  one module per kind: defaults, checks, updates, deletion, columns
`verbs`, `subresources`   get, create, patch, delete …; status, scale, binding, eviction, finalize
`schema/`, `patch/`       bodies against schemas; patches
`admission/`              create, update and delete of any kind; names; quota
`objects`, `store/`       objects and bytes; all objects in memory, every write on disk
`views/`                  lists, watch events, tables, discovery, OpenAPI
`streams/`                log, exec, attach and proxy of pods; the interface of the node agent
`controllers`, `bootstrap`  what follows from a write; what every cluster starts with
`api_errors`, `metrics`, `non_resource_paths`  error answers; metrics; health, version and discovery
"""
