"""kubekit needs neither of the two other packages."""

from __future__ import annotations

import subprocess
import sys

_IMPORT_ALL = """
import importlib, pkgutil, sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("localkube", "muster"):
            raise ImportError(f"{name} is refused")
        return None

sys.meta_path.insert(0, Refused())
import kubekit

names = [m.name for m in pkgutil.walk_packages(kubekit.__path__, "kubekit.")]
for name in names:
    importlib.import_module(name)
print(len(names))
"""


def test_every_module_imports_without_the_other_packages() -> None:
    result = subprocess.run(
        [sys.executable, "-c", _IMPORT_ALL], capture_output=True, text=True, check=False
    )

    assert result.stderr == ""
    assert int(result.stdout) > 20
