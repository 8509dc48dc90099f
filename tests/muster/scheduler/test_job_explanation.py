"""What `explain` tells of a job: the line, the pods' own conditions, and where it runs."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import msgspec

from kubekit.objects.core import Pod
from muster.contract import waiting_line_format
from muster.contract.job_explanation import explain_job, place_in_words
from muster.contract.waiting_line_format import WaitingGang
from muster.scheduler.effects.waiting_line_publisher import encode_line
from tests.muster.scheduler.builders import gang, pod

WHY = "4 of 5 workers fit; short 2 nvidia.com/gpu; 3 nodes full with them, 1 tainted"


def row(gang: str, place: int, dialect: str = "volcano", **more: Any) -> WaitingGang:
    since = "2026-01-01T00:00:00Z"
    return WaitingGang(gang, place, "NotEnoughRoom", WHY, since, dialect, **more)


def changed(member: Pod, *, node: str = "", phase: str = "Pending", says: str = "") -> Pod:
    raw = msgspec.to_builtins(member)
    raw["spec"]["nodeName"] = node
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    condition["message"] = says
    raw["status"] = {"phase": phase, "conditions": [condition] if says else []}
    return msgspec.convert(raw, Pod)


def test_a_waiting_gang_has_its_reason_and_its_place_in_line() -> None:
    line = [row("default/first", 1), row("default/big", 2, min_member=5, pending=5)]

    explanation = explain_job("big", gang("big", 5, gpus=2, role="worker"), line)

    assert explanation.state == "waiting"
    assert explanation.text == f"{WHY}; 2nd in line"
    assert (explanation.place, explanation.in_line, explanation.min_member) == (2, 2, 5)
    assert place_in_words(explanation) == "2nd of 2 in line"
    assert [member.role for member in explanation.members] == ["worker"] * 5


def test_who_may_not_read_the_line_sees_the_place_that_is_on_a_pod() -> None:
    first, second = gang("big", 2)
    raw = msgspec.to_builtins(changed(first, says="0 of 2 fit"))
    raw["status"]["conditions"][0]["lastTransitionTime"] = "2026-01-01T00:01:00Z"
    place = {"type": "muster.dev/InLine", "status": "True", "message": "2/7"}
    place["lastTransitionTime"] = "2026-01-01T00:02:00Z"
    raw["status"]["conditions"] = [*raw["status"]["conditions"], place]
    pods = [msgspec.convert(raw, Pod), second]

    explanation = explain_job("big", pods, None)

    assert explanation.text == "0 of 2 fit; 2nd in line"
    assert place_in_words(explanation) == "2nd of 7 in line"
    assert explanation.since == "2026-01-01T00:01:00Z"
    assert explain_job("big", pods, []).place == 0  # the line that may be read is newer


def test_every_waiting_pod_of_a_gang_has_the_reason_of_the_line() -> None:
    old, new, placed = gang("big", 3)
    pods = [changed(old, says="0 of 3 fit"), new, changed(placed, node="n", phase="Running")]

    members = explain_job("big", pods, [row("default/big", 1)]).members

    assert [member.why for member in members] == [WHY, WHY, ""]


def test_a_row_that_misses_members_is_ignored_once_they_exist() -> None:
    gathering = WaitingGang(
        "default/big", 1, "NotEnoughMembers", "2 of 3 members exist", "", "volcano", pending=2
    )

    assert explain_job("big", gang("big", 2), [gathering]).text.startswith("2 of 3 members exist")
    assert explain_job("big", gang("big", 3), [gathering]).state == "unseen"


def test_a_gang_of_the_same_name_in_another_dialect_or_namespace_is_another_gang() -> None:
    line = [row("default/big", 1, "coscheduling"), row("other/big", 2)]

    explanation = explain_job("big", gang("big", 2), line)

    assert explanation.place == 0
    assert explanation.state == "unseen"


def test_a_gang_by_budget_is_found_by_its_controller() -> None:
    explanation = explain_job("job", [pod("job-worker-0")], [row("default/job", 1, "pdb")])

    assert explanation.place == 1


def test_a_single_pod_is_its_own_gang() -> None:
    explanation = explain_job("lone", [pod("lone")], [row("default/lone", 1, "pod")])

    assert explanation.state == "waiting"


def test_without_a_line_the_pods_condition_gives_the_reason() -> None:
    first, second = gang("big", 2)

    explanation = explain_job("big", [first, changed(second, says="no room")], [])

    assert (explanation.state, explanation.text) == ("waiting", "no room")
    assert [member.why for member in explanation.members] == ["", "no room"]


def test_pods_without_any_condition_name_the_scheduler_they_are_addressed_to() -> None:
    explanation = explain_job("x", gang("x", 2, scheduler="nobody"), [])

    assert explanation.state == "unseen"
    assert explanation.text.endswith("their schedulerName is nobody")


def test_a_running_job_says_so() -> None:
    pods = [changed(p, node=f"n{i}", phase="Running") for i, p in enumerate(gang("run", 2))]

    explanation = explain_job("run", pods, [])

    assert (explanation.state, explanation.text) == (
        "running",
        "2 of 2 pods have a node, on 2 nodes; 2 running",
    )


def test_a_job_that_ended_says_whether_it_succeeded() -> None:
    done = [changed(p, node="n", phase="Succeeded") for p in gang("a", 2)]
    failed = [changed(done[0], node="n", phase="Failed"), done[1]]

    assert explain_job("a", done, []).text == "has ended: 2 of 2 pods succeeded"
    assert explain_job("a", failed, []).text == "has ended: 1 of 2 pods failed"


def test_a_job_without_pods_differs_from_a_job_with_gated_pods() -> None:
    gated = pod("g", spec={"schedulingGates": [{"name": "later"}]})

    assert explain_job("none", [], []).text == "has no pods yet"
    assert explain_job("g", [gated], []).text == "1 of 1 pods are held back by scheduling gates"


def test_a_published_line_is_read_back_unchanged() -> None:
    line = [row("default/big", 1, held=2)]

    assert waiting_line_format.read(encode_line(line)) == line
    assert waiting_line_format.read({"line": "not json"}) == []


def test_job_explanation_imports_neither_numpy_nor_asyncio() -> None:
    heavy = ["numpy", "asyncio", "aiohttp", "yaml"]
    program = f"""
import json, sys
import muster.cli.verbs.explain
print(json.dumps([name for name in {heavy!r} if name in sys.modules]))
"""
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert json.loads(answer.stdout) == []
