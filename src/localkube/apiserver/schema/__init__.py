"""Objects against their schemas: strict decoding, pruning, defaults, rules of values."""
