"""The CustomResourceDefinitions Muster serves and installs, as YAML files in this folder.

`load_all` gives every one, for the local cluster; `texts` are what `muster crds` prints. The YAML
is what a person would apply: nothing is added when it is read.

Every served version of a job keeps unknown fields of spec and status, requires nothing under spec
and has no rules: without a conversion webhook the API server only rewrites `apiVersion` and prunes
by the schema of the version it reads as, so any stricter version would eat another one's fields.
What a version did by itself when it was current is written by its schema's defaults.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from muster.api.meta import Raw


def texts() -> dict[str, str]:
    """The files as they are, by name."""
    folder = resources.files(__package__)
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".yaml")), key=lambda f: f.name)
    return {file.name: file.read_text(encoding="utf-8") for file in files}


def load_all() -> list[Raw]:
    """Every definition."""
    return [
        crd for text in texts().values() for crd in yaml.load_all(text, yaml.CSafeLoader) if crd
    ]
