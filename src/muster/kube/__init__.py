"""Talking to any Kubernetes API, the local one or a real one.

In reading order: `config` and `credentials` (which server, as whom), `request`, `refusal` and
`answer` (calls and their outcomes as values), `pace` (when to ask again), `transport` over `pool`,
`connection`, `tls` and `proxy` (how bytes travel), `client` (typed calls), `websocket`, `streams`,
`spdy` and `forward` (exec, port-forward), `watch`, `store` and `informer` (objects in memory),
`lease` (leader election), `blocking`, `wire` and `link` (the same calls without asyncio). Imports
nothing by itself, so that quick verbs start quickly.
"""
