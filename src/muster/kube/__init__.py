"""The Kubernetes client: for the local API server and for real ones.

In reading order: `auth` (which server, with which credentials), `request`, `decoding` and
`error_response` (calls and their outcomes as values), `retry` (when to send again), `transport`
(HTTP/1.1, TLS, proxies), `client` (typed calls), `streams` (exec, port-forward), `watch`
(informers: objects in memory), `leader_election`, `discovery`, `blocking_client` (the same calls
without asyncio). The package imports nothing by itself, so that quick verbs start quickly.
"""
