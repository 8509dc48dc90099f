"""Virtual addresses of services: their ports, the rules of the kernel, the proxy, variables."""
