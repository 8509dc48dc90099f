"""A submitted command takes the place of its shell if it is a simple command."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from muster.jobs.build.pod_templates import is_simple, shell_command

SIMPLE = (
    "python train.py",
    "  python train.py\n",
    "python3.12 -u train.py --lr 0.1 --name a=b",
    "train.py",
    "./train.sh",
    "/usr/bin/env A=1 python train.py",
    "env A=1 python train.py",
    "nohup python train.py",
    "torchrun --nproc_per_node=2 train.py",
    "mpirun -np 2 python train.py",
    "g++ --version",
    "$HOME/x.py",
    "${HOME}/bin/x.py --verbose",
    '"$HOME/my code/x.py" a',
    "'/opt/my code/x.py' a",
    "~/x.py",
    "python train.py --out $OUT/${NAME} $@",
    "python train.py --text 'a; b && c | d'",
    'python train.py --text "a; b && c | d > e"',
    "python -c 'import os; print(os.getpid())'",
    "python -c 'a = 1\nprint(a)'",
    'python -c "print(\\"a;b\\")"',
    "python train.py a\\;b",
    "python train.py \\\n  --lr 0.1",
    "python train.py *.csv data/[0-9]?.csv",
    "python train.py a#b",
    "python train.py if then else",
    "python train.py > log.txt 2>&1",
    "python train.py <in.txt >>log.txt",
)

NOT_SIMPLE = (
    "",
    "  ",
    "cd x",
    "cd x && python train.py",
    "python a.py; python b.py",
    "python a.py;",
    "python a.py | tee log.txt",
    "python a.py || true",
    "python a.py &",
    "python a.py\npython b.py",
    "python a.py # a comment",
    "# a comment",
    "python a.py --n $(nproc)",
    'python a.py --n "$(nproc)"',
    "python a.py --n `nproc`",
    'python a.py --n "`nproc`"',
    "python a.py --n ${N:-4}",
    "python a.py --n $((1 + 2))",
    "python a.py $'it\\'s' ; ls",
    "python a.py &> log.txt",
    "python a.py a\\>& python b.py",
    "python a.py > >(tee log.txt)",
    "python a.py 'unfinished",
    'python a.py "unfinished',
    "python a.py \\",
    "(python a.py)",
    "{ python a.py; }",
    "! python a.py",
    "FOO=1 python a.py",
    "FOO=/x python a.py",
    "FOO=1",
    "$PYTHON a.py",
    "\\cd x",
    "'cd' x",
    ">log.txt python a.py",
    "2>log.txt python a.py",
    "exec python a.py",
    "time python a.py",
    "if true; then python a.py; fi",
    "echo hello",
    "[ -f a.py ]",
    ". ./env.sh",
    ": nothing",
    "-x",
    "source env.sh",
)


@pytest.mark.parametrize("text", SIMPLE)
def test_one_program_takes_the_place_of_its_shell(text: str) -> None:
    assert is_simple(text)
    assert shell_command("sh", text) == ["sh", "-c", f"exec {text.strip()}"]


@pytest.mark.parametrize("text", NOT_SIMPLE)
def test_any_other_text_stays_as_it_is(text: str) -> None:
    assert not is_simple(text)
    assert shell_command("sh", text) == ["sh", "-c", text]


@pytest.mark.parametrize(
    ("shell", "replaced"), [("bash", True), ("/bin/dash", True), ("fish", False), ("python", False)]
)
def test_only_shells_whose_exec_is_known_get_it(shell: str, replaced: bool) -> None:
    assert shell_command(shell, "python a.py")[2].startswith("exec ") is replaced


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize(
    "text",
    [
        "env printf '<%s>' \"$HOME/a b\" $HOME *.txt 'x;y' \"a | b\"",
        "./script one 'two three'",  # a script without an interpreter line
        "env printf %s words > out.txt 2>&1",
        "nosuchprogram --flag",
        "./notexecutable",
        "'./my script' one",
        "$HOME/script one",
    ],
)
def test_the_program_does_the_same_in_the_shells_place(
    tmp_path: Path, shell: str, text: str
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"this machine has no {shell}")

    def outcome(words: list[str], folder: Path) -> tuple[int, str, dict[str, str]]:
        folder.mkdir()
        for name in ("script", "my script", "notexecutable"):
            (folder / name).write_text('echo "$@"; exit 3\n')
            (folder / name).chmod(0o644 if name == "notexecutable" else 0o755)
        (folder / "a.txt").touch()
        env = {"PATH": "/usr/bin:/bin", "HOME": "."}
        result = subprocess.run(
            words, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=60
        )
        return result.returncode, result.stdout, {f.name: f.read_text() for f in folder.iterdir()}

    replaced = shell_command(shell, text)

    assert replaced[2] == f"exec {text}"
    plain = outcome([shell, "-c", text], tmp_path / "plain")
    assert outcome(replaced, tmp_path / "exec") == plain
