"""The controller of PodDisruptionBudgets: how many of their pods may be evicted."""
