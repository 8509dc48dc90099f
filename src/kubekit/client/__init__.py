"""The Kubernetes client.

In reading order: `auth` (which server, with which credentials), `request`, `decoding` and
`error_response` (calls and their outcomes as values), `retry` (when to send again), `transport`
(HTTP/1.1, TLS, proxies), `client` (typed calls), `watch_stream`, `streams` (exec, port-forward),
`discovery`, `blocking_client` (the same calls without asyncio). The package imports nothing by
itself, so that commands start quickly.
"""
