"""Fixtures for the whole suite, and an environment that no developer's own settings leak into."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from tests import own_network

pytest_plugins = ["tests.controlplane.fixture"]

# On Python 3.11, asking for the current loop makes one that nobody closes, unless a loop, or none,
# was set before; the plugins that run async tests ask. None is what there is.
asyncio.set_event_loop(None)

# A shell starts background jobs deaf to Ctrl-C, and so would be all programs that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


# A broken promise of the scheduler stops a test; in production it is logged and retried.
os.environ["MUSTER_ASSERT"] = "1"

if "PYTEST_XDIST_WORKER" in os.environ and os.geteuid() == 0:
    own_network.enter()

# Machines are noisy: how long an example takes says nothing here.
settings.register_profile("muster", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("muster")


@pytest.fixture(autouse=True)
def clean_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Tests never see the user's cluster, and never write into the user's home."""
    for name in [name for name in os.environ if name.startswith(("KUBE", "ARENA", "MUSTER_HOME"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path_factory.mktemp("muster-home")))
