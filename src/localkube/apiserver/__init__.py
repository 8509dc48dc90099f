"""A Kubernetes API for one machine, on SQLite.

In reading order:
`server`                  one request from HTTP to answer: begin here
`http/`                   reading a request: path, options, accepted form, body
`access/`                 users, tokens, roles and permissions
`resource_registry`, `resource`  all resources; the names of one resource and the rules of its kind
`kinds/`                  one module per kind: defaults, checks, updates, deletion, columns
`verbs`, `subresources`   get, create, patch, delete …; status, scale, binding, eviction, finalize
`schema/`, `patch/`       bodies against schemas; patches
`admission/`              create, update and delete of any kind; names; quota
`codec`, `store/`         objects and bytes; all objects in memory, every write on disk
`views/`                  lists, watch events, tables, discovery, OpenAPI
`streams/`                log, exec, attach and proxy of pods; the interface of the node agent
`after_write`, `bootstrap`  writes that follow from other writes; the first objects of a cluster
`api_errors`, `metrics`, `non_resource_paths`  error answers; metrics; health, version and discovery
"""
