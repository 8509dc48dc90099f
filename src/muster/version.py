"""The version of the package. Modules import it from here: `muster` itself leads to the API."""

__version__ = "0.1.0"
