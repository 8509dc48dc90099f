"""`make demo`: a gang that does not fit waits whole; a gang that fits trains, with real processes.

Everything happens on a local cluster of its own, in a temporary home, and is gone at the end.
KEEP=1 leaves the cluster up and says how to reach it.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

ARENA = Path(sys.executable).with_name("arena")
TRAIN = f"python {Path(__file__).with_name('numpy_ps.py')} --steps 60"
FLAGS = ["--image=python:3.12", "--gang", "--gpus=1", "--ps=1"]


def main() -> int:
    home = tempfile.mkdtemp(prefix="muster-demo-")
    os.environ["MUSTER_HOME"] = home
    os.environ.pop("KUBECONFIG", None)
    keep = bool(os.environ.get("KEEP"))
    began = time.monotonic()
    try:
        say("A local cluster of two nodes with one (declared) GPU each.")
        arena("up", "--detach", "--nodes", "2", "--gpus-per-node", "1")
        too_big()
        fits()
        say(f"Done in {time.monotonic() - began:.0f} s.")
    finally:
        if keep:
            say("The cluster is still up. See it, and stop it, with:")
            print(f"MUSTER_HOME={home} {ARENA} list\nMUSTER_HOME={home} {ARENA} down")
        else:
            arena("down")
            shutil.rmtree(home, ignore_errors=True)
    return 0


def too_big() -> None:
    say("Three workers of one GPU each do not fit on two GPUs: none starts, and it says why.")
    arena("submit", "tf", "--name=too-big", *FLAGS, "--workers=3", TRAIN)
    await_job("too-big", lambda job: bool(job["reason"]) and len(job["instances"]) == 4)
    arena("get", "too-big")
    arena("delete", "too-big")


def fits() -> None:
    say("Two workers and a parameter server fit: they start together and train.")
    arena(
        "submit", "tf", "--name=hello", *FLAGS, "--workers=2", "--success-policy=AllWorkers", TRAIN
    )
    arena("logs", "-f", "hello")
    await_job("hello", lambda job: job["status"] in ("SUCCEEDED", "FAILED"))
    arena("get", "hello")
    arena("list")


def say(text: str) -> None:
    print(f"\n# {text}", flush=True)


def arena(*words: str) -> None:
    """Show the command as a person would type it, and run it."""
    print(f"$ arena {shlex.join(words)}", flush=True)
    subprocess.run([ARENA, *words], check=True)


def await_job(
    name: str, reached: Callable[[dict[str, Any]], bool], *, patience: float = 60.0
) -> None:
    """Wait until the job looks as it should; the demo fails if it never does."""
    deadline = time.monotonic() + patience
    while True:
        shown = subprocess.run(
            [ARENA, "get", name, "-o", "json"], capture_output=True, text=True, check=True
        )
        if reached(json.loads(shown.stdout)):
            return
        if time.monotonic() > deadline:
            sys.exit(f"{name} did not get there in {patience:g} s:\n{shown.stdout}")
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
