"""The `arena` and `muster` commands: one file per verb, imported only when that verb is used.

Reading order: main (verb table, errors -> exit codes), cluster (which cluster a verb talks to),
output (tables, times, colours), then any verb by its name. This is the composition root: it may
import every other package, and nothing imports it.
"""
