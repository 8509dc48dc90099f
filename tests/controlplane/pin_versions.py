"""Pinning the control plane's versions: writes `modules/*/go.mod` and `go.sum`.

Run it by hand to change versions: edit `PINS`, then `python -m tests.controlplane.pin_versions`.
The result is committed, so `build.py` needs no resolution and gives the same binaries everywhere.

Kubernetes cannot be built by `go install module@version`: its go.mod replaces every staging module
(`k8s.io/api`, `k8s.io/client-go`, ...) by a folder that is not in the module's archive. The wrapper
module replaces the same names by their published twins instead: Kubernetes v1.N.P is published as
staging v0.N.P.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

MODULES = Path(__file__).parent / "modules"


@dataclass(frozen=True)
class Pin:
    """One wrapper module: what it wraps, and the main packages built from it by binary name."""

    wrapper: str
    module: str
    version: str
    packages: dict[str, str]


PINS = (
    Pin("etcd", "go.etcd.io/etcd/server/v3", "v3.6.16", {"etcd": "go.etcd.io/etcd/server/v3"}),
    Pin(
        "kubernetes",
        "k8s.io/kubernetes",
        "v1.36.3",
        {
            name: f"k8s.io/kubernetes/cmd/{name}"
            for name in ("kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubectl")
        },
    ),
    Pin("kwok", "sigs.k8s.io/kwok", "v0.8.0", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"}),
)


HELM = Pin("helm", "helm.sh/helm/v3", "v3.22.0", {"helm": "helm.sh/helm/v3/cmd/helm"})
"""Not a part of the control plane: built apart, for the tests of the chart."""

NODE = (
    Pin(
        "node",
        "k8s.io/kubernetes",
        PINS[1].version,
        {name: f"k8s.io/kubernetes/cmd/{name}" for name in ("kubelet", "kube-proxy")},
    ),
    Pin(
        "coredns",
        "github.com/coredns/coredns",
        "v1.14.7",
        {"coredns": "github.com/coredns/coredns"},
    ),
)
"""What a real node needs besides: built apart, for `tests/realnode/`."""

KUBE_STATE_METRICS = Pin(
    "kube-state-metrics",
    "k8s.io/kube-state-metrics/v2",
    "v2.15.0",
    {"kube-state-metrics": "k8s.io/kube-state-metrics/v2"},
)
"""Another user of the API: built apart, for `tests/tools/`."""

_OWN = "muster.dev/tests/programs"
PROGRAMS = Pin(
    "programs",
    "k8s.io/client-go",
    PINS[1].version.replace("v1.", "v0."),
    {"api-client": f"{_OWN}/client", "api-load": f"{_OWN}/load"},
)
"""Go programs of this repository: a client for `tests/tools/`, the load of a benchmark."""

EVERY_PIN = (*PINS, HELM, *NODE, KUBE_STATE_METRICS, PROGRAMS)


def staging_replacements(go_mod: str, version: str) -> list[str]:
    """`name => name v0.N.P` for every module that Kubernetes' go.mod replaces by a folder."""
    published = "v0." + version.removeprefix("v1.")
    replaced = json.loads(go_mod).get("Replace") or []
    names = sorted(
        entry["Old"]["Path"] for entry in replaced if "/staging/" in entry["New"]["Path"]
    )
    return [f"{name} => {name} {published}" for name in names]


def wrapper_go_mod(pin: Pin, go_version: str, replacements: list[str]) -> str:
    """The text of a wrapper's go.mod before `go mod tidy` completes it."""
    lines = [
        f"module muster.dev/tests/{pin.wrapper}",
        f"go {go_version}",
        f"require {pin.module} {pin.version}",
    ]
    foreign = [name for name in pin.packages.values() if not name.startswith(_OWN)]
    lines += [f"tool {package}" for package in foreign]
    lines += [f"replace {replacement}" for replacement in replacements]
    return "\n\n".join(lines) + "\n"


def write(pin: Pin) -> None:
    """Write one wrapper module and let Go complete and lock it."""
    downloaded = json.loads(_go("mod", "download", "-json", f"{pin.module}@{pin.version}"))
    go_mod = _go("mod", "edit", "-json", downloaded["GoMod"])
    folder = MODULES / pin.wrapper
    folder.mkdir(parents=True, exist_ok=True)
    text = wrapper_go_mod(pin, json.loads(go_mod)["Go"], staging_replacements(go_mod, pin.version))
    (folder / "go.mod").write_text(text)
    (folder / "go.sum").unlink(missing_ok=True)
    _go("mod", "tidy", cwd=folder)


def _go(*arguments: str, cwd: Path | None = None) -> str:
    result = subprocess.run(
        ["go", *arguments], cwd=cwd or MODULES, check=True, stdout=subprocess.PIPE, text=True
    )
    return result.stdout


def main() -> None:
    MODULES.mkdir(exist_ok=True)
    for pin in EVERY_PIN:
        print(f"pinning {pin.module} {pin.version}", flush=True)
        write(pin)


if __name__ == "__main__":
    main()
