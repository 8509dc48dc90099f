"""Kubeflow's own CustomResourceDefinitions, from its Go module, for tests on a real API server.

`definitions()` returns the CRDs of the training operator as it publishes them, or raises
`Unavailable`. They are read from Go's module cache, where the module proxy's checksum was checked;
nothing of them is stored here.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests import own_network
from tests.controlplane.build import Unavailable

MODULE, VERSION = "github.com/kubeflow/training-operator", "v1.9.3"
FOLDER = Path("manifests") / "base" / "crds"
KINDS = ("TFJob", "MPIJob", "PyTorchJob", "JAXJob")


@cache
def definitions() -> tuple[dict[str, Any], ...]:
    """The CRD of every job kind that Muster runs, as the Kubeflow operator installs it."""
    if shutil.which("go") is None:
        raise Unavailable("Go is not installed (no `go` on PATH), so its module proxy is not used")
    module = f"{MODULE}@{VERSION}"
    result = subprocess.run(
        ["go", "mod", "download", "-json", module],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=own_network.leave,  # a parallel worker's own network does not reach the proxy
    )
    if result.returncode != 0:
        output = result.stderr.strip() or result.stdout[-300:]
        raise Unavailable(f"Go could not fetch {module}: {output}")
    folder = Path(json.loads(result.stdout)["Dir"]) / FOLDER
    crds = [
        yaml.load(file.read_text(), yaml.CSafeLoader)
        for file in sorted(folder.glob("kubeflow.org_*.yaml"))
    ]
    wanted = [crd for crd in crds if crd["spec"]["names"]["kind"] in KINDS]
    if {crd["spec"]["names"]["kind"] for crd in wanted} != set(KINDS):
        raise Unavailable(f"{module} has no CRD for some of {', '.join(KINDS)}")
    return tuple(wanted)
