"""What a daemon tells the outside about itself.

Reading order: logs (human or JSON lines), health (named checks, verdicts), metrics (Prometheus, and
the port that serves /metrics, /healthz and /readyz). Knows nothing of Kubernetes.
"""
