"""docs/operations.md and the alerts: they name the metrics that there are."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

import muster
from kubekit.client.auth import kube_config
from kubekit.client.blocking_client import BlockingClient
from kubekit.client.request import Request
from kubekit.control.loop import Outcome
from muster.scheduler.decisions import decision, reasons
from muster.scheduler.effects.binder import BindOutcome
from tests.docs import markdown
from tests.repository import ROOT

PAGE = markdown.DOCS / "operations.md"
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"
RULES: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
SERVE = """
import asyncio, importlib, json, sys, urllib.request
from kubekit.telemetry import metrics
from kubekit.telemetry.health import Health

async def main():
    async with metrics.serving(0, Health()) as port:
        url = f"http://127.0.0.1:{port}/metrics"
        text = await asyncio.to_thread(lambda: urllib.request.urlopen(url).read().decode())
    labels = {each._name: each._labelnames for each in metrics.REGISTRY._collector_to_names
              if hasattr(each, "_labelnames")}
    print(json.dumps([text, labels]))

for module in sys.argv[1:]:
    importlib.import_module(module)
asyncio.run(main())
"""
"""Serves the metrics of a process that has imported these modules, and reads them by HTTP."""
COMPONENTS = {
    "operator.daemon": ("**The operator and the scheduler**", "**The operator**"),
    "scheduler.daemon": ("**The operator and the scheduler**", "**The scheduler**"),
}
LABEL_VALUES = {
    "component": {"operator", "scheduler"},
    "loop": {"operator"},
    "reason": {
        *(str(value) for name, value in vars(reasons).items() if name.isupper()),
        decision.PREEMPTED,
        decision.RELEASED,
    },
    "outcome": {each.value for each in (*BindOutcome, *Outcome)},
}
"""The values that alerts may ask for."""


def test_the_page_has_the_metrics_of_each_component() -> None:
    for component, titles in COMPONENTS.items():
        text, _ = _served(f"muster.{component}")
        listed = {name for title in titles for name in _table(title)}

        assert _families(text) == listed, component


def test_the_page_has_the_labels_of_each_metric() -> None:
    modules = ("muster.operator.daemon", "muster.scheduler.daemon", "localkube.apiserver.server")
    _, labels = _served(*modules, "muster.web.cluster.live_cluster")
    names = {name.removesuffix("_total"): listed for name, listed in _labels_on_the_page().items()}

    assert names == {name: sorted(given) for name, given in labels.items()}


@pytest.mark.slow
def test_the_page_has_the_metrics_of_the_local_cluster() -> None:
    with muster.local_cluster() as cluster:
        cluster.submit("tf", name="measured", command="true", workers=1).wait(timeout=60)
        with BlockingClient(kube_config.load(Path(cluster.kubeconfig))) as client:
            text = client.send(Request("GET", "/metrics")).body.decode()
    listed = set(_labels_on_the_page())
    # The dashboard is imported when somebody opens it.
    assert _families(text) | {each for each in listed if "_web_" in each} == listed


def test_every_alert_is_on_the_page() -> None:
    assert [rule["alert"] for rule in RULES] == markdown.first_column(PAGE, "## Alerts")


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_is_a_rule_of_prometheus_about_metrics_that_exist(rule: dict[str, Any]) -> None:
    assert {"alert", "expr", "labels", "annotations"} <= set(rule) <= {
        "alert", "expr", "for", "labels", "annotations"
    }  # fmt: skip
    assert set(rule["annotations"]) == {"summary", "description"}
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert re.fullmatch(r"\d+[mh]", rule.get("for", "1m"))
    labels = _labels_on_the_page()
    for selector in _selectors(rule["expr"]):
        name = (selector.name or "").removesuffix("_bucket")
        assert name in labels
        for matcher in selector.matchers.matchers:
            assert matcher.name in labels[name]
            assert set(matcher.value.split("|")) <= LABEL_VALUES[matcher.name]
    for text in rule["annotations"].values():
        assert set(re.findall(r"\$labels\.(\w+)", text)) <= _grouped(rule["expr"])


def test_a_wrong_expression_is_noticed() -> None:
    with pytest.raises(ValueError, match="parenthesis"):
        _selectors("sum(rate(muster_binds_total[5m])")


def _served(*modules: str) -> tuple[str, dict[str, list[str]]]:
    command = [sys.executable, "-c", SERVE, *modules]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    text, labels = json.loads(result.stdout)
    ours = {name: given for name, given in labels.items() if name.startswith("muster_")}
    return text, ours


def _families(text: str) -> set[str]:
    """The metrics of Muster in what /metrics answers; `_created` is the time of a series."""
    names = re.findall(r"^# HELP (muster_\w+)", text, re.MULTILINE)
    return {name for name in names if not name.endswith("_created")}


def _table(title: str) -> dict[str, list[str]]:
    """The metrics of the table below this line, with their labels."""
    rows = PAGE.read_text().split(title)[1].split("\n\n")[1].splitlines()
    cells = [row.split("|") for row in rows if row.startswith("| `")]
    return {
        name: sorted(re.findall(r"\w+", labels))
        for _, names, labels, *_ in cells
        for name in re.findall(r"`(\w+)`", names)
    }


def _labels_on_the_page() -> dict[str, list[str]]:
    titles = re.findall(r"^\*\*The .*?\*\*", PAGE.read_text(), re.MULTILINE)
    return {name: labels for title in titles for name, labels in _table(title).items()}


def _selectors(expression: str) -> list[promql_parser.VectorSelector]:
    found: list[promql_parser.VectorSelector] = []

    def visit(node: promql_parser.Expr) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node)

    promql_parser.walk(promql_parser.parse(expression), visit)
    assert found
    return found


def _grouped(expression: str) -> set[str]:
    """The labels that the result of an expression has besides those of its target."""
    by = re.findall(r"by \(([^)]*)\)", expression)
    return set(re.findall(r"\w+", by[0])) if by else set()
