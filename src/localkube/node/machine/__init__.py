"""The machine as Kubernetes nodes: capacity, heartbeat, GPUs, usage."""
