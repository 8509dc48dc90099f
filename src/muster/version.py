"""The version of the package. `muster` itself leads to the API.

Kept apart because the build reads this file.
"""

__version__ = "0.1.0"
