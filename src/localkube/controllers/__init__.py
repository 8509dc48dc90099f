"""The built-in controllers of Kubernetes that a cluster on one machine needs.

On a real cluster kube-controller-manager runs them. Start reading at `controller_manager`, which
combines them.
"""
