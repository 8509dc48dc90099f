"""A package runs with nothing but Python, and only if it is the one that the job names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from muster.sdk.functions.package import BOOT, LIMIT, Header, command_line, digest, make_package
from muster.sdk.functions.pickling import pickle_call

# Not rank 0, so that it needs no API server. -I: neither environment nor this project.
REPLICA = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PROCESS_ID": "1"}


def start(path: Path, expected: str) -> tuple[int, str, str]:
    line = command_line(str(path), expected, mpi=False)
    done = subprocess.run(
        ["sh", "-c", line], env=REPLICA, cwd="/", capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def shout(word: str) -> None:
    import cloudpickle

    print(word.upper(), cloudpickle.__spec__.origin)


def fail() -> None:
    raise LookupError("nothing here")


def package(function: object = shout, *args: object) -> bytes:
    header = Header("shout", "JAXJob", "x-result")
    return make_package(header, pickle_call(function, args, {}))  # type: ignore[arg-type]


def test_a_replica_calls_the_function_with_the_cloudpickle_that_was_sent(tmp_path: Path) -> None:
    file = tmp_path / "function.zip"
    file.write_bytes(package(shout, "hello"))

    assert start(file, digest(file.read_bytes())) == (0, "HELLO cloudpickle/__init__.py\n", "")


def test_an_exception_is_a_traceback_without_frames_of_muster(tmp_path: Path) -> None:
    file = tmp_path / "function.zip"
    file.write_bytes(package(fail))

    code, _, err = start(file, digest(file.read_bytes()))

    assert code == 1
    assert err.endswith("LookupError: nothing here\n")
    assert "muster_function" not in err


def test_code_that_was_put_in_place_of_the_function_does_not_run(tmp_path: Path) -> None:
    mine, theirs = package(shout, "mine"), package(shout, "theirs")
    file = tmp_path / "function.zip"
    file.write_bytes(theirs)

    code, out, err = start(file, digest(mine))

    assert (code, out) == (1, "")
    assert "is not the function that this job was submitted with" in err


def test_the_same_call_gives_the_same_bytes_and_they_are_few() -> None:
    assert package(shout, "x") == package(shout, "x")
    assert len(package(shout, "x")) < 40_000 < LIMIT


def test_a_python_that_cannot_load_the_program_says_its_version() -> None:
    words = ["-c", "function.zip", "0" * 64, "/none", "3.11"]
    script = f"import sys; sys.version_info = (2, 7, 18); sys.argv = {words!r}; exec({BOOT!r})"

    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )

    assert (ran.returncode, ran.stderr) == (
        1,
        "muster: the function was sent by Python 3.11, and the replica has Python 2.7: "
        "both must have the same minor version\n",
    )


def test_the_image_may_call_its_python_python3() -> None:
    line = command_line("/x", "0" * 64, mpi=True)

    assert line.startswith('mpirun "$(command -v python3 || command -v python || echo python3)" -c')
