"""One module per kind: defaults, checks, updates, deletion, quota, columns, and its Resource."""
