"""Runs tests in the environment that has Kubeflow's client, and reads their outcomes."""

from __future__ import annotations

import ast
import os
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.examples.training import PYTHON
from tests.prerequisites import missing_prerequisite
from tests.repository import ROOT

FOLDER = Path(__file__).parent
KUBECONFIG = "MUSTER_TEST_KUBECONFIG"
Outcomes = dict[str, ElementTree.Element]


def names_of(*modules: str) -> list[str]:
    """The names of the tests in these modules, as `module::name`."""
    return [
        f"{module}::{node.name}"
        for module in modules
        for node in ast.parse((FOLDER / f"{module}.py").read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def run_tests(kubeconfig: Path, folder: Path, *modules: str) -> Outcomes:
    """The outcome of every test of the modules against a cluster, by `module::name`."""
    report = folder / "report.xml"
    # Without our settings and fixtures, which need plugins that the environment does not have.
    words = ["-q", "-c", os.devnull, f"--rootdir={ROOT}", "--noconftest", "-p", "no:cacheprovider"]
    words += ["-o", "python_files=*.py", f"--junit-xml={report}"]
    result = subprocess.run(
        [PYTHON, "-m", "pytest", *words, *(str(FOLDER / f"{module}.py") for module in modules)],
        cwd=ROOT,
        env={**os.environ, KUBECONFIG: str(kubeconfig)},
        timeout=280,
        check=False,
        capture_output=True,
        text=True,
    )
    assert result.returncode in (0, 1), result.stdout + result.stderr  # else no test was run
    cases = ElementTree.parse(report).iter("testcase")
    return {
        f"{case.attrib['classname'].rpartition('.')[2]}::{case.attrib['name']}": case
        for case in cases
    }


def assert_passed(outcomes: Outcomes, name: str) -> None:
    """Pass, fail or skip as the test of this name did."""
    outcome = outcomes[name]
    for problem in (*outcome.iter("failure"), *outcome.iter("error")):
        pytest.fail(problem.text or problem.attrib["message"], pytrace=False)
    for skipped in outcome.iter("skipped"):
        missing_prerequisite("torchrun", skipped.attrib["message"])
