"""`import muster`: the names it has, what it costs, and what type checkers see."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import generate_flag_types

import muster


def test_every_exported_name_exists_and_has_a_docstring() -> None:
    for name in muster.__all__:
        value = getattr(muster, name)
        assert name in dir(muster)
        if name != "__version__":
            assert inspect.getdoc(value), name


def test_type_checkers_see_the_names_that_the_module_has() -> None:
    module, ours = ast.parse(Path(muster.__file__).read_text()), ("kubekit", "muster")
    imported = {
        alias.name
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(ours)
        for alias in node.names
    }

    assert imported == set(muster.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'muster' has no attribute 'sumbit'"):
        muster.sumbit  # type: ignore[attr-defined] # noqa: B018


def test_importing_the_package_imports_next_to_nothing() -> None:
    script = (
        "import sys; before = set(sys.modules); import muster; print(*set(sys.modules) - before)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert {name.partition(".")[0] for name in ran.stdout.split()} <= {"__future__", "muster"}
    assert {n for n in ran.stdout.split() if n.startswith("muster")} == {"muster", "muster.version"}


def test_the_types_of_arguments_are_those_of_the_table_of_flags(tmp_path: Path) -> None:
    assert generate_flag_types.FILE.read_text() == generate_flag_types.text()


USER_PROGRAM = """
import muster
from muster import aio

job: muster.Job = muster.submit(
    "pytorch", name="resnet", command="torchrun train.py", workers=4, gpus=1, gang=True
)
for line in job.logs(follow=True):
    print(line.upper())
job.wait(timeout="2h")
print(muster.get_job("resnet").explain().text, [job.name for job in muster.list_jobs()])
with muster.local_cluster(nodes=4, gpus_per_node=2) as cluster:
    cluster.submit("tf", ["python", "train.py"], name="a", env={"A": 1}).scale(8)

async def main() -> int:
    other = await aio.submit("tf", "true", name="b")
    async for line in other.logs(follow=True):
        print(line.upper())
    return (await (await other.wait()).summary()).replicas
"""


def test_a_strict_type_checker_accepts_a_program_and_finds_its_mistakes(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(USER_PROGRAM)
    bad.write_text("import muster\nmuster.submit('tf', 'x', name='a', worker=2).wiat()\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache")]

    checked = subprocess.run([*command, good], cwd=tmp_path, capture_output=True, text=True)
    refused = subprocess.run([*command, bad], cwd=tmp_path, capture_output=True, text=True)

    assert checked.returncode == 0, checked.stdout
    assert 'Unexpected keyword argument "worker"' in refused.stdout
    assert '"Job" has no attribute "wiat"' in refused.stdout
