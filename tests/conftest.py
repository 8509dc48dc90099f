"""Fixtures for the whole suite, and an environment without the developer's own settings."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from tests import own_network

pytest_plugins = ["tests.controlplane.fixture", "tests.controlplane.helm"]

# On Python 3.11, `get_event_loop` creates a loop that nobody closes, unless the loop was set, even
# to None. The plugins that run async tests call it.
asyncio.set_event_loop(None)

# A shell starts background jobs with SIGINT ignored, and the programs that tests start inherit it.
# So does `nohup` with SIGHUP: a handler keeps us alive, and is the default again in other programs.
signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

# A developer's shell and CI have settings that a fresh machine lacks. The programs that tests start
# behave as they do there.
for name in ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "COLUMNS", "LINES", "NO_COLOR"):
    os.environ.pop(name, None)

# A broken invariant of the scheduler fails a test; in production it is logged and retried.
os.environ["MUSTER_ASSERT"] = "1"

if "PYTEST_XDIST_WORKER" in os.environ and os.geteuid() == 0:
    own_network.enter()

# On a busy machine an example may take long: that is not a failure. Each run draws the same
# examples, so that what passed passes again; `--hypothesis-profile=explore` draws others.
settings.register_profile(
    "muster", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", settings.get_profile("muster"), derandomize=False)
settings.load_profile("muster")


@pytest.fixture(autouse=True)
def clean_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Tests never see the user's cluster, and never write into the user's home."""
    for name in [name for name in os.environ if name.startswith(("KUBE", "ARENA", "MUSTER_HOME"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path_factory.mktemp("muster-home")))
