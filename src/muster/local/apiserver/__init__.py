"""A Kubernetes API for one machine, on SQLite.

In reading order:
`entries`, `log`, `store` every write in one table; the present in memory
`routes`, `registry`      what a path means; which kinds there are (`builtin`, and CRDs)
`objects`, `names`        bytes to objects and back; what may be called what
`status`                  every "no" the server can say
`verbs`, `watching`       get, list, create, update, patch, delete; watch
`admit`, `defaults`, `validate`, `patch`    what happens to an object on its way in (pure)
`subresources`, `backend` binding, eviction, status, scale; the seam to the node agent
`discovery`, `tables`     for kubectl
`access`, `serve`         TLS, tokens, kubeconfig; HTTP
"""
