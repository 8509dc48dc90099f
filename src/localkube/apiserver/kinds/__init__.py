"""The kinds, each with its defaults, checks, updates, deletion, quota, columns and its Resource."""
