"""The CustomResourceDefinitions Muster serves and installs, as YAML files in this folder.

`load_all` reads all of them, for the local cluster. `muster crds` prints `yaml_files`, exactly as a
person would apply them.

Every served version of a job preserves unknown fields of spec and status, requires nothing under
spec and has no validation rules. Without a conversion webhook the API server only rewrites
`apiVersion` and prunes by the schema of the version it reads, so a stricter version would drop the
fields of another one. The defaults of a version are in its schema.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from muster.api.meta import Raw


def yaml_files() -> dict[str, str]:
    """The text of each file, by name."""
    folder = resources.files(__package__)
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".yaml")), key=lambda f: f.name)
    return {file.name: file.read_text(encoding="utf-8") for file in files}


def load_all() -> list[Raw]:
    """Every CustomResourceDefinition."""
    documents = "---\n".join(yaml_files().values())
    return [crd for crd in yaml.load_all(documents, yaml.CSafeLoader) if crd]
