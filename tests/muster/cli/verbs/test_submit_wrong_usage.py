"""Command lines of `arena submit` with mistakes are rejected with a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.jobs.build.flags import TensorFlow, flags_of
from tests.muster.cli.submitter import TF, Submitter


@pytest.mark.parametrize("word", ["", "=", "=v"])
def test_an_empty_word_is_not_an_old_spelling(submitter: Submitter, word: str) -> None:
    _, _, err = submitter.arena(*TF, "echo", word)

    assert "deprecated" not in err


FILES = {
    "list of two": "kind: List\napiVersion: v1\nitems: []\n",
    "list with a pod": "kind: List\napiVersion: v1\nitems: "
    "[{apiVersion: v1, kind: Pod, metadata: {name: p}}]\n",
    "two": "kind: tf\n---\nkind: tf\n",
    "empty": "",
    "list": "- a\n",
    "no kind": "name: j\ncommand: x\n",
    "odd kind": "kind: tff\nname: j\ncommand: x\n",
    "no name": "kind: tf\ncommand: x\nimage: i\n",
    "no command": "kind: tf\nname: j\nimage: i\n",
    "typo": "kind: tf\nname: j\nimage: i\ncommand: x\nwokers: 2\n",
    "text for a number": "kind: tf\nname: j\nimage: i\ncommand: x\nworkers: two\n",
    "text for a switch": "kind: tf\nname: j\nimage: i\ncommand: x\ngang: maybe\n",
    "nested": "kind: tf\nname: j\ncommand: x\nimage: {a: b}\n",
    "octal": "kind: tf\nname: j\nimage: i\ncommand: x\nworkers: 010\n",
    "underscores": "kind: tf\nname: j\nimage: i\ncommand: x\nworkers: 1_000\n",
    "nothing": "kind: tf\nname: j\nimage: i\ncommand: x\nenv: {A: }\n",
    "list in a mapping": "kind: tf\nname: j\nimage: i\ncommand: x\nenv: {A: [b]}\n",
    "no job": "apiVersion: v1\nkind: Pod\nmetadata: {name: j}\n",
    "no replicas": "apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {name: j}\nspec: {}\n",
    "upper case": "apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {name: J}\nspec: {}\n",
    "yaml": "a: [",
}


GOOD = "kind: tf\nname: j\nimage: i\nenv: {A: b}\ncommand: [x]\nworkers: 2\n"


WRONG_VALUES = {
    "int": ("x", "1.5", "", "-1"),
    "quantity": ("lots", "-1", "1Zi"),
    "pairs": ("x", "=v", ""),
    "labels": ("x", "a b=c", "a=b c", f"{'k' * 64}=v"),
    "duration": ("soon", "5", "1h-2m"),
    "path": ("relative", "/", "a:b", ":/x"),
    "choice": ("sometimes", "0"),
    "object": ("Not_A_Name", "a/b"),
}


FLAGS_BY_MEANING = {
    "int": ("gpus", "workers", "retry", "ps", "ps-gpus", "sync-depth"),
    "quantity": (
        "cpu", "memory", "worker-cpu", "worker-memory", "ps-cpu", "ps-memory-limit",
        "chief-cpu", "evaluator-memory", "share-memory",
    ),
    "pairs": ("env", "device"),
    "labels": ("label", "selector", "worker-selector", "ps-selector"),
    "duration": ("running-timeout", "ttl-after-finished", "starting-timeout"),
    "path": ("data", "data-dir", "config-file"),
    "choice": (
        "clean-task-policy", "success-policy", "image-pull-policy", "sync-mode", "toleration",
        "env-from", "worker-affinity-policy", "ps-affinity-constraint", "role-sequence",
        "sync-submodules",
    ),
    "object": ("priority", "image-pull-secret", "sync-secret"),
}  # fmt: skip


def malformed() -> Iterator[tuple[str, ...]]:
    """Command lines with one mistake each."""
    base = ("--image=i", "--workers=2", "--ps=1", "--chief", "--evaluator")
    git = ("--sync-mode=git", "--sync-source=https://x/p.git")
    for meaning, flags in FLAGS_BY_MEANING.items():
        for flag in flags:
            more = git if flag.startswith("sync-") and flag != "sync-mode" else ()
            for value in WRONG_VALUES[meaning]:
                yield ("tf", "--name=j", *base, *more, f"--{flag}={value}", "x")
    for row in flags_of(TensorFlow):
        yield ("tf", "--name=j", *base, f"{row.spelling[:-1]}q=1", "x")
    for name in ("", "J", "a_b", "-a", "a" * 50, "1a", "a.b", "ä"):
        yield ("tf", f"--name={name}", *base, "x")
    for type_ in ("tf", "mpi", "pytorch", "jax"):
        named = (type_, "--name=j", "--image=i")
        yield (type_, "--image=i", "x")
        yield (type_, "--name=j", "x")
        yield named
        yield (*named, "")
        yield (*named, "--gang", "false", "python", "t.py")
        yield (*named, "--gang=perhaps", "x")
        yield (*named, "--sync-branch=b", "x")
        yield (*named, "--sync-mode=git", "x")
        yield (*named, "--dry-run=often", "x")
        yield (*named, "--dry-run", "server", "x")
        yield (*named, "python t.py", "--dry-run", "client")
        yield (*named, "--model-name=m", "x")
        yield (*named, "--data=c:/dev/shm", "x")
    for other in ("tff", "horovodjob", "etjob", "spark"):
        yield (other, "--name=j", "--image=i", "x")
    for change in ("workers", "=1", "wokers=2", "env.A.B.C=1", "command[3]=x", "workers=1e3",
                   "command=[a", "command='a' b", "command=[a] # b", "gang=perhaps"):  # fmt: skip
        yield ("-f", "good.yaml", "--set", change)
    yield from (("-f", f"{name}.yaml") for name in (*FILES, "missing"))


def test_malformed_command_lines_print_a_sentence_and_create_nothing(
    submitter: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(submitter.home)
    for name, text in FILES.items():
        Path(f"{name}.yaml").write_text(text)
    Path("good.yaml").write_text(GOOD)
    lines = list(malformed())
    assert len(lines) >= 200

    for words in lines:
        code, out, err = submitter.arena("submit", *words)
        assert code in (1, 2), (words, code, err)
        assert out == [], words
        assert "error: " in err, words
        assert "bug in Muster" not in err, (words, err)
    assert submitter.objects() == []
    assert submitter.arena("submit", "-f", "good.yaml")[0] == 0


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("--wokers=2", "--workers"),
        ("--workerimage=a", "--worker-image"),
        ("--sync=git", "--sync-"),
        ("--cpu-limit=2", "--worker-cpu-limit"),
    ],
)
def test_an_unknown_flag_is_rejected_with_the_nearest_one(
    submitter: Submitter, wrong: str, near: str
) -> None:
    code, _, err = submitter.arena(*TF, wrong, "x")

    assert code == 2
    assert near in err.partition(wrong.partition("=")[0])[2]


def test_the_value_of_a_dry_run_is_never_a_word_of_the_command(submitter: Submitter) -> None:
    for words in (
        ("--dry-run", "server", "python", "t.py"),
        ("python t.py", "--dry-run", "server"),
    ):
        code, out, err = submitter.arena(*TF, *words)
        assert (code, out) == (2, [])
        assert (
            "--dry-run server: write --dry-run=server, with an equals sign\nsee: arena submit"
            in err
        )
    assert submitter.arena(*TF, "--dry-run", "--", "server")[0] == 0
    assert submitter.arena(*TF, "--dry-run", "python server")[0] == 0


def test_a_flag_of_another_kind_of_job_names_that_kind(submitter: Submitter) -> None:
    code, _, err = submitter.arena("submit", "pytorch", "--name=x", "--ps=1", "x")

    assert code == 2
    assert "No such option '--ps': --ps is a flag of tf jobs\n" in err
