"""What the cluster looks like, as arrays: nodes, pod classes, volumes, counts of pods."""
