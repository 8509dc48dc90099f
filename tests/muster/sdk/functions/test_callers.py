"""Functions of scripts, of the interactive interpreter, and of other processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import muster

pytestmark = pytest.mark.slow

SCRIPT = """\
import muster
import helpers
from helpers import twice

class Box:
    def __init__(self, content):
        self.content = content

    def opened(self):
        return twice(self.content) + helpers.twice(1)

def main():
    job = muster.run(Box(5).opened, kind="jax", workers=2, name="script", namespace="{namespace}")
    print("answer", job.result(timeout="2m"))

if __name__ == "__main__":
    main()
"""
HELPERS = """\
import threading
lock = threading.Lock()

def twice(number):
    return number * 2
"""
TYPED = """\
import muster
factor = 6
def train(number):
    import math
    return math.prod([number, factor])

print("answer", muster.run(train, (7,), kind="jax", namespace="{namespace}").result(timeout="2m"))
job = muster.run(lambda: 1 / 0, kind="jax", namespace="{namespace}")
job.result(timeout="2m")
"""
CELLS = (
    """
import muster
class Net:
    def __init__(self, size):
        self.size = size
factor = 6
""",
    """
def train(number):
    return Net(number * factor)
""",
    """
net = muster.run(train, (7,), kind="jax", namespace="{namespace}").result(timeout="2m")
print("answer", net.size, isinstance(net, Net))
""",
)
EXECUTE = """
import sys
import nbformat
from nbclient import NotebookClient

notebook = nbformat.v4.new_notebook()
notebook.cells = [nbformat.v4.new_code_cell(text) for text in sys.argv[1:]]
NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
print([row.get("text") for row in notebook.cells[-1].outputs])
"""
LATER = """\
import muster
print("answer", muster.get_job("script", namespace="{namespace}").result())
"""


def python(
    cluster: muster.LocalCluster, folder: Path, *words: str, typed: str = "", **env: str
) -> subprocess.CompletedProcess[str]:
    inherited = {name: os.environ[name] for name in ("HOME", "PATH")}
    return subprocess.run(
        [sys.executable, *words], cwd=folder, input=typed, text=True, capture_output=True,
        env={**inherited, **cluster.environment, **env}, check=False, timeout=200,
    )  # fmt: skip


def test_a_script_with_a_module_beside_it_and_its_result_in_a_later_process(
    cluster: muster.LocalCluster, namespace: str, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(SCRIPT.format(namespace=namespace))
    (project / "helpers.py").write_text(HELPERS)

    # Not from its own directory, so that the replica does not find helpers.py.
    done = python(cluster, tmp_path, "project/train.py")
    assert done.stdout == "answer 12\n", done.stderr

    later = python(cluster, tmp_path, "-c", LATER.format(namespace=namespace))
    assert later.stdout == "answer 12\n", later.stderr
    elsewhere = python(
        cluster, tmp_path, "-c", LATER.format(namespace=namespace), MUSTER_HOME=str(tmp_path / "x")
    )
    assert "its key is only on the machine of the user who called muster.run" in elsewhere.stderr


def test_functions_that_are_typed(
    cluster: muster.LocalCluster, namespace: str, tmp_path: Path
) -> None:
    done = python(cluster, tmp_path, "-i", "-q", typed=TYPED.format(namespace=namespace))

    assert "answer 42" in done.stdout, done.stderr
    assert "ZeroDivisionError: division by zero" in done.stderr
    assert "RemoteTraceback" in done.stderr


def test_functions_of_a_notebook(
    cluster: muster.LocalCluster, namespace: str, tmp_path: Path
) -> None:
    cells = [text.format(namespace=namespace) for text in CELLS]

    done = python(cluster, tmp_path, "-c", EXECUTE, *cells)

    assert "answer 42 True" in done.stdout, done.stderr


def test_importing_muster_does_not_import_cloudpickle() -> None:
    script = "import muster, sys; print([n for n in sys.modules if 'pickle' in n])"
    shown = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert "cloudpickle" not in shown.stdout
