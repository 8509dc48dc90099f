"""`make demo`: the purpose of gang scheduling, shown with real training processes.

1. Five MPI workers of two GPUs each on a cluster of eight GPUs: all wait, and the job says why.
2. Four of them fit: all start together, and mpirun trains over eight ranks.
3. Two replicas train together while a rival waits for one GPU more than is free. One of them
   crashes, and with --retry both start again: the rival would fit now, but their room is held.

The demo runs on its own local cluster, in a temporary home, and removes both at the end, even
after Ctrl-C. If a step fails, the log of the cluster is kept.
KEEP=1 leaves the cluster up and prints how to reach it. MUSTER_TRAINING_PYTHON names the Python of
the jobs if it is not our own; mpirun and mpi4py must be installed with it.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

    Job = dict[str, Any]

ARENA = Path(sys.executable).with_name("arena")
HERE = Path(__file__).parent.absolute()
BEGAN = time.monotonic()
NOISE = "plm:ssh: Warning: setpgid"
"""mpirun prints it on a busy machine, when a child runs before its parent has set its group."""


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    home = tempfile.mkdtemp(prefix="muster-demo-")
    os.environ["MUSTER_HOME"] = home
    os.environ.pop("KUBECONFIG", None)
    activate(os.environ.get("MUSTER_TRAINING_PYTHON") or sys.executable)
    failure, code = "", 0
    try:
        scenes(home)
    except KeyboardInterrupt:
        failure, code = "interrupted", 130
    except (subprocess.CalledProcessError, DemoFailed) as error:
        failure, code = f"{describe(error)}; the cluster's log is {save_log(home)}", 1
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not leave the cluster
        leave(home, keep=bool(os.environ.get("KEEP")))
    if failure:
        print(f"The demo ended early: {failure}", file=sys.stderr)
    else:
        say("Done, and the cluster is gone. Your own script, in your own directory:")
        command(f'{shlex.quote(str(ARENA))} submit tf --name=mine --workers=2 "python train.py"')
    return code


class DemoFailed(Exception):
    """A job did not do what the demo shows."""


def scenes(home: str) -> None:
    say("Three scenes on a temporary local cluster, about a minute. Ctrl-C ends them.")
    say(f"Four nodes with two (declared) GPUs each, in {home} (about 3 s)")
    arena("up", "--detach", "--nodes=4", "--gpus-per-node=2")
    too_big()
    fits()
    comes_back()


def describe(error: subprocess.CalledProcessError | DemoFailed) -> str:
    if isinstance(error, DemoFailed):
        return str(error)
    words = shlex.join(str(word) for word in error.cmd[1:])
    return f"`arena {words}` failed with exit code {error.returncode}"


def save_log(home: str) -> str:
    """Copy the log of the cluster to a file that stays; returns its place."""
    with tempfile.NamedTemporaryFile(prefix="muster-demo-", suffix=".log", delete=False) as file:
        log = Path(home, "daemon.log")
        file.write(log.read_bytes() if log.exists() else b"")
    return file.name


def shorter(path: Path) -> str:
    """The path as a person in this directory types it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def activate(python: str) -> None:
    """Make the environment of this Python the active one: submitted jobs run in it."""
    os.environ.pop("VIRTUAL_ENV", None)
    os.environ["PATH"] = f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"


def leave(home: str, *, keep: bool) -> None:
    if keep:
        say("The cluster is still up. See it, and stop it, with:")
        print(f"export MUSTER_HOME={home}\n{ARENA} status\n{ARENA} down")
    else:
        arena("down", check=False)
        shutil.rmtree(home, ignore_errors=True)


def too_big() -> None:
    say("1. Five workers of two GPUs each do not fit on eight GPUs: none starts, and it says why.")
    submit_mpi(workers=5)
    await_job("mpi-dist", waiting(5))
    arena("get", "mpi-dist")
    arena("delete", "mpi-dist")


def fits() -> None:
    say("2. Four of them fit: they start together, and mpirun trains on all GPUs (about 10 s).")
    submit_mpi(workers=4)
    await_job("mpi-dist", running(5))
    arena("get", "mpi-dist")
    arena("top", "node")
    follow("mpi-dist")
    await_job("mpi-dist", ended)
    arena("delete", "mpi-dist")


def submit_mpi(*, workers: int) -> None:
    script = shorter(HERE / "mpi_allreduce.py")
    train = f"mpirun python -m mpi4py {script} --steps 80 --pause 0.05"
    flags = ("--name=mpi-dist", "--gpus=2", f"--workers={workers}", "--gang")
    arena("submit", "mpi", *flags, train)


def comes_back() -> None:
    say("3. Two replicas with a GPU each train together: six GPUs stay free (about 30 s).")
    train = f"python {shorter(HERE / 'numpy_allreduce.py')}"
    flags = ("--gang", "--gpus=1")
    arena("submit", "pytorch", "--name=ddp", "--workers=2", "--retry=3", *flags,
          f"{train} --steps 200 --pause 0.1")  # fmt: skip
    await_job("ddp", running(2))
    say("A rival wants seven, one more than there are: it waits.")
    arena("submit", "pytorch", "--name=rival", "--workers=7", *flags, f"{train} --steps 20")
    await_job("rival", waiting(7))
    arena("list")
    victim = "ddp-worker-0"
    before, process = nodes("ddp"), process_of(victim)
    follow("ddp", when="step 10 ", then=lambda: crash(victim, process, before))
    await_job("ddp", ended)
    arena("get", "ddp")
    say("Now that the job is done the rival has its turn.")
    await_job("rival", ended)
    arena("list")


def crash(name: str, process: str, before: list[str]) -> None:
    say(f"{name} crashes. All replicas start again, so the rival would fit for a moment.")
    arena("attach", "ddp", "-i", name, f"kill -9 {process}")
    await_job("ddp", lambda job: running(2)(job) and "failed once" in job["reason"])
    # Read both before printing: once the training is over, the rival starts.
    rival, after = get("rival"), nodes("ddp")
    arena("get", "ddp")
    arena("list")
    if after != before or rival["status"] != "PENDING":
        raise DemoFailed(f"the room was not kept: on {after}, rival {rival['status']}")
    say(f"Its room was kept: it is back on {' and '.join(dict.fromkeys(after))}, and trains again.")


def nodes(name: str) -> list[str]:
    """The nodes of a job's replicas."""
    return sorted(instance["node"] for instance in get(name)["instances"])


def process_of(instance: str) -> str:
    """The id of the training process, which is in the first line that it prints."""
    with subprocess.Popen(
        [ARENA, "logs", "-f", "ddp", "-i", instance], stdout=subprocess.PIPE, text=True
    ) as log:
        first = log.stdout.readline() if log.stdout is not None else ""
        log.terminate()
    return first.rpartition("pid ")[2].strip()


def waiting(count: int) -> Callable[[Job], bool]:
    """Whether there are `count` instances and the job's reason names the missing GPUs."""
    return lambda job: len(job["instances"]) == count and "gpu" in job["reason"]


def running(count: int) -> Callable[[Job], bool]:
    """Whether there are `count` instances and all of them run or have succeeded."""
    return lambda job: (
        len(job["instances"]) == count
        and all(i["status"] in ("Running", "Completed") for i in job["instances"])
    )


def ended(job: Job) -> bool:
    return bool(job["status"] == "SUCCEEDED")


def say(text: str) -> None:
    print(f"\n{styled(f'# [{time.monotonic() - BEGAN:3.0f} s] {text}', 1, 36)}", flush=True)


def command(text: str) -> None:
    print(f"{styled('$', 32)} {styled(text, 1)}", flush=True)


def styled(text: str, *codes: int) -> str:
    """The text in colour, if standard output is a terminal."""
    if os.environ.get("NO_COLOR") or not sys.stdout.isatty():
        return text
    return f"\x1b[{';'.join(map(str, codes))}m{text}\x1b[0m"


def arena(*words: str, check: bool = True) -> None:
    """Print the command as a user would type it, and run it; a failure ends the demo."""
    command(f"arena {shlex.join(words)}")
    subprocess.run([ARENA, *words], check=check)


def follow(name: str, *, when: str = "", then: Callable[[], None] | None = None) -> None:
    """Print the chief's log as it is written; call `then` at the line that starts with `when`."""
    command(f"arena logs -f {name}")
    with subprocess.Popen([ARENA, "logs", "-f", name], stdout=subprocess.PIPE, text=True) as log:
        for line in log.stdout or ():
            if NOISE not in line:
                print(line, end="", flush=True)
            if then is not None and line.startswith(when):
                log.terminate()
                break
    if then is not None:
        then()
        follow(name)


def get(name: str) -> Job:
    shown = subprocess.run(
        [ARENA, "get", name, "-o", "json"], capture_output=True, text=True, check=True
    )
    job: Job = json.loads(shown.stdout)
    return job


def await_job(name: str, reached: Callable[[Job], bool], *, patience: float = 60.0) -> None:
    """Wait until the job is in the wanted state; the demo fails if it never is, or cannot be."""
    deadline = time.monotonic() + patience
    while not reached(job := get(name)):
        if job["status"] == "FAILED":
            give_up(job, f"{name} failed: {job['reason']}")
        if time.monotonic() > deadline:
            give_up(job, f"{name} did not get there in {patience:g} s")
        time.sleep(0.3)


def give_up(job: Job, why: str) -> NoReturn:
    """End the demo with the job, the end of its chief's log, and the reason."""
    print(json.dumps(job, indent=1), flush=True)
    words = ("logs", job["name"], "--tail=40")
    command(f"arena {shlex.join(words)}")
    subprocess.run([ARENA, *words], check=False)
    raise DemoFailed(why)


if __name__ == "__main__":
    sys.exit(main())
