"""What the CLI, the Python API and the dashboard share.

No click and no print: results are values, failures are errors of `muster.errors`.
"""
