"""What any Kubernetes program in Python needs: objects, clients, watches, control loops."""
