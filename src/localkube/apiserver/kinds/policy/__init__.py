"""Limits within a namespace: limit ranges, quotas, disruption budgets, network policies."""
