"""What the scheduler writes to the API: binds, deletions, conditions, events, the line."""
