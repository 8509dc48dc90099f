"""Which API server, and with which credentials: kubeconfig, tokens, exec plugins."""
