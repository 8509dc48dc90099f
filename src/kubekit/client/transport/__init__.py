"""HTTP/1.1 to an API server: connections, TLS, proxies; with asyncio and without."""
