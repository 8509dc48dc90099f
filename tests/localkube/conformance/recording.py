"""What a real API server answers to every case: recorded once, so that `make test` needs no Go.

A file holds one group of cases: by name, the normalised answer to each step, one on each line.
`make test` compares our server with them, `make test-kube` the real one, and `make record` writes
them anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.controlplane.build import version_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.localkube.conformance.transcript import Step

FOLDER = Path(__file__).parent / "recorded"
VERSION = version_of("kubernetes")
RECORDS = "MUSTER_RECORD_ANSWERS" in os.environ
"""Whether this run of the tests records, instead of comparing with what is recorded."""
_LONG = 20_000
"""Of longer answers, only a digest is recorded."""


def plain(answers: Iterable[Any]) -> list[Any]:
    """Normalised answers as they come back from a file."""
    plain: list[Any] = json.loads(json.dumps(list(answers)))
    return plain


def short(answer: Any) -> Any:
    """An answer as it is recorded."""
    text = _line(_without_our_schemas(answer))
    if "<ns>.example.com" in text:  # the hash of a group whose name is drawn
        text = re.sub(r'(?<="storageVersionHash":")[^"]+', "<hash>", text)
    if len(text) <= _LONG:
        return json.loads(text)
    return f"SHA-256 {hashlib.sha256(text.encode()).hexdigest()}"


def _without_our_schemas(answer: Any) -> Any:
    """Schemas of our own definitions change with them, and are long."""
    status, body, *rest = answer
    if not isinstance(body, dict) or "kubeflow.org" not in str(body.get("metadata")):
        return answer
    spec = dict(body.get("spec") or {})
    if "versions" in spec:
        spec["versions"] = [{**row, "schema": "<ours>"} for row in spec["versions"]]
        body = {**body, "spec": spec}
    return [status, body, *rest]


def recorded(group: str, name: str) -> list[Any]:
    """The answers of the real server to a case."""
    cases = read(group)
    assert name in cases, f"no answers to {name!r} of {VERSION} are recorded: run `make record`"
    return cases[name]


@cache
def read(group: str) -> dict[str, list[Any]]:
    """The recorded cases of a group, by name."""
    path = _path(group)
    cases: dict[str, list[Any]] = json.loads(path.read_text()) if path.exists() else {}
    return cases


def write(groups: dict[str, dict[str, list[Any]]]) -> None:
    """Replace everything that is recorded."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    (FOLDER / VERSION).mkdir(parents=True)
    for group, cases in groups.items():
        texts = []
        for name in sorted(cases):
            lines = ",\n".join(map(_line, cases[name]))
            texts.append(f"{_line(name)}: [\n{lines}\n]")
        text = ",\n".join(texts)
        _path(group).write_text(f"{{\n{text}\n}}\n")


def _path(group: str) -> Path:
    return FOLDER / VERSION / f"{group}.json"


def _line(answer: Any) -> str:
    return json.dumps(answer, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


class Recorder:
    """Compares the answers of the real server with the recorded ones, or records them."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, list[Any]]] = {}

    def check(self, group: str, name: str, steps: Sequence[Step], answers: list[Any]) -> None:
        """Fail if the real server has answered otherwise than is recorded."""
        if RECORDS:
            self._groups.setdefault(group, {})[name] = [short(answer) for answer in answers]
        else:
            assert_as_recorded(group, name, steps, answers)

    def save(self) -> None:
        if RECORDS:
            write(self._groups)


def assert_as_recorded(group: str, name: str, steps: Sequence[Step], answers: list[Any]) -> None:
    """The answers of any server are those that were recorded."""
    hint = "is not as recorded; if the real server has changed, run `make record`"
    assert_alike(steps, recorded(group, name), [short(answer) for answer in answers], hint)


def assert_alike(steps: Sequence[Step], want: list[Any], got: list[Any], hint: str = "") -> None:
    """Both have the same answers to all steps."""
    for step, one, other in zip(steps, want, got, strict=True):
        assert other == one, f"{step.method} {step.path} as {step.user or 'admin'} {hint}".rstrip()
