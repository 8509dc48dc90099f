"""The verbs: each reads flags, calls `muster.client` and prints.

Kept apart because the verb table imports each by its name when it is used, so that a command loads
only what it needs. Verbs that differ in a word share a module.
"""
