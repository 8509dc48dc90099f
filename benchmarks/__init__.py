"""Repeatable measurements, each a ratio to a peer or to a bare loop in the same run.

`make bench` runs the suite named in `__main__.py`, prints a table and keeps it in
`benchmarks/results/`; `python -m benchmarks NAME …` runs others. Absolute times depend on the
machine and its load; so the ratios are compared with the targets.
"""
