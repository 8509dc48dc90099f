"""The command line ends every error in a sentence and an exit code, never in a traceback."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

import muster
from kubekit import errors
from muster.cli import main
from muster.cli.other_programs import FLAG_HABITS, HABITS, NO_NAME
from muster.cli.verb_groups import RootGroup
from muster.cli.verb_table import ALIASES, VERBS


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main.run("arena", list(argv))
    out = capsys.readouterr()
    return code, out.out, out.err


def test_help_lists_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--help")

    assert code == 0
    assert [v.name for v in VERBS if f"\n  {v.name} " not in out] == []


@pytest.mark.parametrize("verb", [verb.name for verb in VERBS])
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, verb, "--help")

    assert code == 0
    assert "Usage: arena" in out


def test_a_typo_gets_the_nearest_verb(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "sumbit", "tf")

    assert code == 2
    assert "no such verb: sumbit; did you mean submit?" in err


@pytest.mark.parametrize(
    ("word", "verb"),
    [
        ("run", "submit"), ("sbatch", "submit"), ("srun", "submit"), ("ps", "list"),
        ("jobs", "list"), ("squeue", "list"), ("describe", "get"), ("kill", "delete"),
        ("rm", "delete"), ("cancel", "delete"), ("scancel", "delete"), ("stop", "suspend"),
        ("start", "up"), ("init", "up"), ("exec", "attach"), ("tail", "logs"), ("sinfo", "get"),
        ("nodes", "get"), ("cp", "submit"), ("edit", "scale"), ("rollout", "scale"),
    ],
)  # fmt: skip
def test_a_verb_of_another_program_gets_a_hint(
    word: str, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, word, "x")

    assert code == 2
    assert err.startswith(f"error: no such verb: {word}; ")
    assert f"`arena {verb} " in err or f"`arena {verb}`" in err


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("delete --all", "`arena prune --since 1h`"), ("delete -A", "`arena delete JOB…`"),
        ("delete -f job.yaml", "names, not files"), ("del --force x", "a running job too"),
        ("logs --all-containers x", "`arena logs --all JOB`"), ("logs -p x", "--previous"),
        ("list -a", "finished jobs too"), ("ls --all", "`arena list -A`"),
        ("list -l a=b", "`arena get jobs -l KEY=VALUE`"), ("scale x --replicas=3", "--workers"),
        ("up -d", "--detach"), ("get --watch", "`arena list`"),
    ],
)  # fmt: skip
def test_a_flag_of_another_program_gets_a_hint(
    line: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, *line.split())

    assert code == 2
    assert hint in err.splitlines()[0]


def test_no_flag_of_another_program_is_one_of_ours() -> None:
    group = RootGroup(name="arena")
    context = click.Context(group)
    for verb, flag in FLAG_HABITS:
        command = group.get_command(context, verb)
        assert command is not None
        assert flag not in [spelling for option in command.params for spelling in option.opts]


def test_every_verb_that_a_hint_names_exists() -> None:
    hints = [*HABITS.values(), *FLAG_HABITS.values(), *NO_NAME.values()]
    named = {verb for hint in hints for verb in re.findall(r"`arena (\w+)", hint)}

    assert named <= {verb.name for verb in VERBS}
    assert not set(HABITS) & {*(verb.name for verb in VERBS), *ALIASES}


@pytest.mark.parametrize(
    ("word", "proposal"),
    [
        ("delet", "delete"), ("deelte", "delete"), ("dwon", "down"),
        ("pune", "prune"), ("pruned-", ""), ("deletes!", ""), ("gett", "get"), ("sumbit", "submit"),
    ],
)  # fmt: skip
def test_a_verb_that_deletes_is_proposed_only_for_one_wrong_letter(
    word: str, proposal: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, _, err = run(capsys, word)

    expected = f"; did you mean {proposal}?" if proposal else ""
    assert err.splitlines()[0] == f"error: no such verb: {word}{expected}"


@pytest.mark.parametrize("words", [["python", "t.py"], ["./t.sh"], ["--name=x", "python t.py"]])
def test_a_submission_without_a_kind_gets_an_example(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "submit", *words)

    assert code == 2
    assert 'write tf, mpi, pytorch or jax first: arena submit tf --name=NAME "python' in err


@pytest.mark.parametrize(
    ("words", "near"), [(["submit", "tff"], "tf"), (["config", "lst"], "arena config list")]
)
def test_a_misspelt_kind_gets_the_most_similar_kind(
    words: list[str], near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"did you mean {near}?" in run(capsys, *words)[2].replace("`", "")


def test_a_misspelt_run_does_not_suggest_prune(capsys: pytest.CaptureFixture[str]) -> None:
    assert "prune" not in run(capsys, "rune")[2]
    assert "`arena submit tf" in run(capsys, "rune")[2]


def test_a_wrong_flag_gets_the_nearest_flag(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "submit", "tf", "--name=x", "--wokers=2", "true")

    assert code == 2
    assert "--wokers" in err
    assert "--workers" in err


def test_a_missing_name_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "submit", "tf", "true")

    assert code == 2
    assert "--name" in err


def test_without_a_cluster_a_verb_says_how_to_get_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    code, _, err = run(capsys, "list")

    assert code == 5
    assert "error: no cluster is configured, and the local cluster is not running\n`arena up" in err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.MusterError("x"), 1),
        (errors.UsageError("x"), 2),
        (errors.ConfigError("x"), 2),
        (muster.NotFound("x", status=404), 3),
        (muster.Forbidden("x", status=403), 4),
        (muster.Unauthorized("x", status=401), 4),
        (muster.Unreachable("x"), 5),
        (muster.NoCluster("x"), 5),
        (muster.JobFailed("x"), 10),
        (RuntimeError("x"), 1),
    ],
)
def test_an_error_gives_its_exit_code_without_a_traceback(
    error: Exception, code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise error

    monkeypatch.setattr(main, "_dispatch", fail)

    got, _, err = run(capsys, "list")

    assert got == code
    assert "Traceback" not in err
    assert err.startswith("error: ")


def test_a_reader_that_closes_the_pipe_is_no_error() -> None:
    script = "import sys; from muster.cli.main import run; sys.exit(run('arena', ['crds']))"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as reader:
        assert reader.stdout is not None
        assert reader.stderr is not None
        reader.stdout.read(1)
        reader.stdout.close()
        complaint = reader.stderr.read()

    assert (reader.returncode, complaint) == (0, b"")


def test_stdout_and_stderr_keep_their_order_in_a_pipe() -> None:
    script = """
import sys
from muster.cli import main
from muster.cli.show.messages import note
from kubekit.errors import MusterError

def answer(*_):
    print("1")
    note("2")
    print("3")
    raise MusterError("4")

main._answer = answer
sys.exit(main.run("arena", ["x"]))
"""
    result = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False,
    )  # fmt: skip

    assert result.stdout == "1\n2\n3\nerror: 4\n"


@pytest.mark.parametrize("verb", ["up", "down", "use", "config", "version"])
def test_a_context_before_a_verb_without_a_cluster_is_refused(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "--context", "nosuch", verb)

    assert code == 2
    assert f"--context has no effect on `{verb}`" in err


@pytest.mark.parametrize(
    "words",
    [
        ["submit", "tf", "--name=x", "--image=i", "true"], ["list"], ["get", "x"], ["explain", "x"],
        ["logs", "x"], ["attach", "x"], ["wait", "x"], ["delete", "x"], ["prune", "--since=1h"],
        ["suspend", "x"], ["resume", "x"], ["scale", "x", "--workers=1"], ["top", "job"],
        ["top", "node"], ["open", "x"], ["data", "list"], ["status"], ["whoami"], ["get", "pods"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_context_that_does_not_exist_is_refused_by_every_verb(
    words: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)

    code, out, err = run(capsys, "--context", "nosuch", *words)
    assert (code, out) == (2, "")
    assert f"error: --context nosuch: there is no {tmp_path}/.kube/config\n" in err

    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text("{contexts: [{name: a, context: {cluster: c}}]}")
    code, out, err = run(capsys, "--context", "nosuch", *words)
    assert (code, out) == (2, "")
    assert "nosuch" in err.splitlines()[0]


def test_debug_shows_the_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise errors.Bug("broken")

    monkeypatch.setattr(main, "_dispatch", fail)

    assert "Traceback" in run(capsys, "list", "--debug")[2]


def test_control_characters_in_a_message_do_not_reach_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise errors.MusterError("\x1b[2Jgone")

    monkeypatch.setattr(main, "_dispatch", fail)

    assert "\x1b" not in run(capsys, "list")[2]


@pytest.mark.parametrize(
    ("words", "gang"),
    [(["--gang"], "true"), (["--gang=true"], "true"), (["--gang=false"], "false")],
)
def test_a_switch_may_carry_its_value_after_an_equals_sign(
    words: list[str], gang: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = [
        "submit",
        "tf",
        "--name=x",
        "--image=i",
        "--workers=2",
        "--dry-run",
        *words,
        "python t.py",
    ]
    code, out, _ = run(capsys, *line)

    assert code == 0
    assert f"muster.dev/gang: '{gang}'" in out
    assert "python t.py" in out


def test_old_and_new_spellings_write_the_same_and_the_last_one_wins(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = ["submit", "tf", "--name=x", "--workers=2", "--dry-run"]
    _, out, _ = run(capsys, *line, "--workerImage=a", "--worker-image=b", "true")

    assert "image: b" in out
    assert "image: a" not in out


def test_the_version_names_both_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "version")[1].startswith(f"arena (muster {muster.__version__})\n")
    assert run(capsys, "version", "--short")[1] == f"{muster.__version__}\n"
    assert str(Path(muster.__file__).parent) in run(capsys, "version", "-v")[1]


def test_words_after_two_dashes_belong_to_the_users_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = ["submit", "tf", "--name=x", "--image=i", "--workers=2", "--dry-run", "--"]
    _, out, _ = run(capsys, *line, "python", "t.py", "--debug")

    assert "python t.py --debug" in out


@pytest.mark.parametrize("words", [["serve", "list"], ["cron"], ["submit", "horovodjob", "--x"]])
def test_a_verb_that_only_arena_has_prints_one_sentence(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *words)

    assert (code, out) == (2, "")
    assert re.match(r"error: Muster \w+", err)
    assert len(err.splitlines()) == 2


@pytest.mark.parametrize("verb", ["top", "data", "config", "submit"])
def test_a_verb_without_its_own_verb_shows_its_help(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, verb)

    assert (code, out) == (2, "")
    assert err.startswith(f"Usage: arena {verb}")
    assert "Commands:" in err
    assert "see:" not in err


BIN = Path(sys.executable).parent


def shell(line: str) -> tuple[int, str]:
    """The exit code of `arena` in this shell command, and its stderr."""
    env = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": "/nonexistent"}
    result = subprocess.run(
        ["bash", "-c", line], env=env, capture_output=True, text=True, check=False
    )
    return result.returncode, result.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", ["--help", "get --help", "crds", "version"])
def test_a_reader_that_is_gone_before_the_first_line_is_no_error(
    words: str, unbuffered: str
) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as deaf:
        result = subprocess.run(
            [BIN / "arena", *words.split()], stdout=deaf, stderr=subprocess.PIPE, check=False,
            env={"PYTHONUNBUFFERED": unbuffered, "HOME": "/nonexistent"},
        )  # fmt: skip

    assert (result.returncode, result.stderr) == (0, b"")


@pytest.mark.parametrize("words", ["--help", "get --help", "crds", "version"])
def test_output_that_cannot_be_written_is_an_error_that_says_so(words: str) -> None:
    assert shell(f"arena {words} >/dev/full") == (
        1,
        "error: the output cannot be written: No space left on device\n",
    )


def test_closed_output_is_no_error() -> None:
    assert shell("arena --help >&-") == (0, "")
    assert shell("arena config list >&-") == (0, "")
    assert shell("arena list 2>&-") == (5, "")
    assert shell("arena list >&- 2>&- <&-") == (5, "")
