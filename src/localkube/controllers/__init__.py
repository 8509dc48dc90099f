"""The built-in controllers of Kubernetes that a cluster on one machine needs.

On a real cluster kube-controller-manager runs them. Start reading at `controller_manager`, which
combines them.

Kept apart because each controller is a plug-in of `controller_manager` that a reader finds by the
name of its kind; and because a decision (`…_decision`, `deployment_rollout`, `endpoint_slices`)
is pure, while its controller reads the clock and writes to the API.
"""
