"""Long-lived streams to a pod: exec, attach, port-forward."""
