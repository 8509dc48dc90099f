"""Building a real Kubernetes control plane from the Go modules pinned in `modules/`.

Run by the Makefile (`python -m tests.controlplane.build`) and, when the cache is empty, by the test
fixture and the benchmarks. Promise: `build()` returns a folder that holds every binary of
`BINARIES`, or raises `Unavailable` with one sentence; the folder's name is a hash of everything
that goes into the binaries, so a changed pin never meets a stale cache; two builds at once do the
work once.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.controlplane.pin_versions import (
    HELM,
    KUBE_STATE_METRICS,
    MODULES,
    NODE,
    PINS,
    PROGRAMS,
    Pin,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

BINARIES = tuple(name for pin in PINS for name in pin.packages)


class Unavailable(Exception):
    """The control plane is not available on this machine; the message says why."""


def version_of(wrapper: str) -> str:
    """The pinned version of `etcd`, `kubernetes` or `kwok`, such as `v1.36.3`."""
    return next(pin.version for pin in PINS if pin.wrapper == wrapper)


def cached(pins: tuple[Pin, ...] = PINS) -> Path | None:
    """The folder with all binaries if they are built already."""
    folder = _target(pins)
    names = [name for pin in pins for name in pin.packages]
    return folder if all(os.access(folder / name, os.X_OK) for name in names) else None


def build(pins: tuple[Pin, ...] = PINS) -> Path:
    """The folder with all binaries, built now if the cache lacks them."""
    folder = cached(pins)
    if folder is not None:
        return folder
    if shutil.which("go") is None:
        raise Unavailable(
            "Go is not installed (no `go` on PATH), so the test control plane cannot be built."
        )
    target = _target(pins)
    with _locked(target.parent):
        return cached(pins) or _build_into(target, pins)


def _build_into(target: Path, pins: tuple[Pin, ...]) -> Path:
    # The name is fixed, not random: under the lock nobody else builds, so what is there is a dead
    # build's rest.
    partial = target.with_name("bin.partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.rmtree(target, ignore_errors=True)
    what = ", ".join(pin.wrapper for pin in pins)
    started = time.monotonic()
    for pin in pins:
        for name, package in pin.packages.items():
            _build_one(pin, package, partial / name)
    partial.rename(target)
    print(f"{what} built in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return target


def _build_one(pin: Pin, package: str, output: Path) -> None:
    started = time.monotonic()
    print(f"building {output.name} {pin.version} ...", file=sys.stderr, flush=True)
    flags = ["-trimpath", "-buildvcs=false", "-ldflags", _ldflags(pin), "-o", str(output)]
    command = ["go", "build", *flags, package]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    result = subprocess.run(
        command, cwd=MODULES / pin.wrapper, env=environment, stderr=subprocess.PIPE, text=True
    )
    if result.returncode != 0:
        raise Unavailable(
            f"Go could not build {package} {pin.version}: {_last_lines(result.stderr)}"
        )
    size = output.stat().st_size / 1e6
    print(
        f"built {output.name}: {time.monotonic() - started:.0f} s, {size:.0f} MB",
        file=sys.stderr,
        flush=True,
    )


def _ldflags(pin: Pin) -> str:
    """Strip symbols and stamp the version; unstamped, `/version` would say v0.0.0-master."""
    stamps: dict[str, str] = {}
    if pin.module == "k8s.io/kubernetes":
        major, minor, _ = pin.version.removeprefix("v").split(".")
        values = {
            "gitVersion": pin.version,
            "gitMajor": major,
            "gitMinor": minor,
            "gitTreeState": "clean",
        }
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
            stamps |= {f"{package}.{name}": value for name, value in values.items()}
    if pin.wrapper == "kwok":
        stamps["sigs.k8s.io/kwok/pkg/consts.Version"] = pin.version
    return " ".join(["-s -w", *(f"-X {name}={value}" for name, value in stamps.items())])


def _target(pins: tuple[Pin, ...]) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "muster" / "controlplane" / _versions_hash(pins) / "bin"


def _versions_hash(pins: tuple[Pin, ...]) -> str:
    digest = hashlib.sha256(f"{sys.platform} {platform.machine()}".encode())
    for pin in pins:
        digest.update(f"{pin} {_ldflags(pin)}".encode())
        folder = MODULES / pin.wrapper
        for file in (folder / "go.mod", folder / "go.sum", *sorted(folder.rglob("*.go"))):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _last_lines(text: str) -> str:
    return " / ".join(text.strip().splitlines()[-3:]) or "no message"


def main() -> int:
    try:
        print(build())
        if "--tools" in sys.argv[1:]:
            for pin in (HELM, PROGRAMS, KUBE_STATE_METRICS):
                build((pin,))
        if "--node" in sys.argv[1:]:
            build(NODE)
    except Unavailable as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
