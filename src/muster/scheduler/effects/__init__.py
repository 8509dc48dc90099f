"""What the scheduler writes to the API: binds, deletions, volumes, conditions, events, the line."""
