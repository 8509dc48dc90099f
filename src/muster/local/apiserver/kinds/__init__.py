"""What is special about each built-in kind: defaults, checks, immutable fields, columns."""
