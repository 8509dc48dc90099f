"""Rules of built-in kinds that their schemas do not tell: what must be there and fit together."""
