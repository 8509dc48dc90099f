"""Who belongs together, what is remembered of a gang, and whose turn it is."""
