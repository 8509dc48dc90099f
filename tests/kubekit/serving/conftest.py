"""Connections are tested with the API server, which serves them to strangers."""

from tests.localkube.apiserver.conftest import api

__all__ = ["api"]
