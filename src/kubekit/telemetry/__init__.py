"""Logs, health and metrics of a daemon. Knows nothing of Kubernetes.

Reading order: logging_setup (for people or as JSON lines, in a file of bounded size), health (named
checks), metrics (Prometheus, and the port that serves /metrics, /healthz and /readyz),
unexpected_errors (counted, and bounded in the log).
"""
