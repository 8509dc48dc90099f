"""Where a job of the local cluster runs: the user's directory, home and programs.

A submitted job runs like a command typed in the same shell: in the current directory, with the home
directory and the programs of PATH. The node does nothing special for it. The job's manifest names
the directories as hostPath volumes and has PATH and the working directory as fields. Jobs that
fetch code, and jobs with `--isolated`, get private directories: only `--python` applies to them.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kubekit.errors import UsageError
from muster.contract import local_cluster_names
from muster.jobs.build.flags import Submission, Workspace
from muster.jobs.build.volumes import below, mount_paths

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster.client.home import Home

_INHERITED = ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "LD_LIBRARY_PATH")
_PROGRAM_FOLDERS = ("bin", "sbin", "shims")


def resolve(args: Submission, home: Home) -> Submission:
    """The flags with this machine's defaults, and with absolute paths that exist.

    `home` is that of the local cluster.
    """
    args = replace(
        args,
        image=args.image or local_cluster_names.IMAGE,
        data_dir=tuple(map(_data_directory, args.data_dir)),
        python=_interpreter(args.python) if args.python else "",
        isolated=args.isolated or bool((home.status() or {}).get("isolated")),
    )
    if is_private(args):
        return args
    directory = _absolute(args.working_dir) if args.working_dir else current_directory()
    _check_directory(args, directory, home)
    model_dir = (
        os.path.join(directory, os.path.expanduser(args.model_dir)) if args.model_dir else ""
    )
    is_relative = bool(args.logdir) and "://" not in args.logdir and args.logdir[0] != "/"
    logdir = os.path.join(directory, args.logdir) if is_relative else args.logdir
    return replace(args, working_dir=directory, logdir=logdir, model_dir=model_dir)


def is_private(args: Submission) -> bool:
    """Whether the pods of resolved flags get their own home and working directory."""
    # Code is fetched into the working directory: it must never replace the user's files.
    return args.isolated or bool(args.sync_mode)


def find_workspace(args: Submission) -> Workspace:
    """The workspace for flags that are resolved."""
    if is_private(args) and not args.python:
        return Workspace()
    path = _search_path(args.python)
    directories = () if is_private(args) else _directories(args.working_dir)
    variables = {"PATH": os.pathsep.join(path)}
    python = args.python or _which(("python3", "python"), path)
    if python:
        variables[local_cluster_names.PYTHON] = python
    variables |= {name: os.environ[name] for name in _INHERITED if os.environ.get(name)}
    if args.python:  # these would name another environment
        variables = {n: v for n, v in variables.items() if n not in ("VIRTUAL_ENV", "CONDA_PREFIX")}
    if directories:
        variables["HOME"] = _home()
    folders = _program_folders(path, python, variables)
    for text in (*directories, *variables.values()):
        _check_encoding(text)
    return Workspace(directories, _outermost(folders, directories), tuple(variables.items()))


def current_directory() -> str:
    """The current directory by the name that the user's shell shows."""
    try:
        real = os.getcwd()
    except FileNotFoundError:
        raise UsageError(
            "the current directory was deleted",
            hint="Go to another directory, or set --working-dir.",
        ) from None
    named = os.environ.get("PWD", "")
    normal = os.path.isabs(named) and os.path.normpath(named) == named
    return named if normal and os.path.exists(named) and os.path.samefile(named, real) else real


def shows(workspace: Workspace, path: str, content: bytes) -> bool:
    """Whether the job sees this file at this path without another volume."""
    if not any(below(path, folder) for folder in workspace.directories):
        return False
    try:
        return Path(path).read_bytes() == content
    except OSError:
        return False


def notes(args: Submission, *, local: bool) -> tuple[str, ...]:
    """Sentences about a job whose files are not where the user may look for them."""
    if local and is_private(args):
        return _notes_on_isolated(args)
    if local:
        if args.working_dir != "/":
            return ()
        return (
            "the job runs in /: every replica has its own, and files written there are discarded; "
            "submit from your project's directory, or set --working-dir",
        )
    rows = ["--python has no effect: only the local cluster uses it"] if args.python else []
    if files := _unseen_files(args):
        rows.append(
            f"pods see {' and '.join(files)} of this machine only if the image contains it; "
            "fetch code with --sync-mode, or build it into the image"
        )
    return tuple(rows)


def _notes_on_isolated(args: Submission) -> tuple[str, ...]:
    """That the command names files of the current directory, which the job does not see."""
    inside = args.directory
    if any(below(inside, path) for path in mount_paths(args)):
        return ()  # a volume, which may have them
    files = [word for word in _unseen_files(args) if not _is_file(os.path.join(inside, word))]
    if not files:
        return ()
    names = " and ".join(files)
    return (
        f"the job does not see {names} of this directory, because it is isolated: it runs in "
        f"{inside}; submit it without --isolated, or mount the directory with --data-dir",
    )


def _unseen_files(args: Submission) -> list[str]:
    """Files of the current directory in the command: pods that run elsewhere lack them."""
    if args.sync_mode:
        return []
    try:
        words = shlex.split(" ".join(args.command))
    except ValueError:  # the shell will say it
        words = []
    return [word for word in dict.fromkeys(words) if not os.path.isabs(word) and _is_file(word)]


def _is_file(word: str) -> bool:
    try:
        return Path(word).is_file()
    except (OSError, ValueError):  # too long, or a zero byte
        return False


def _absolute(text: str) -> str:
    path = os.path.expanduser(text)
    if not os.path.isabs(path):
        path = os.path.join(current_directory(), path)
    return os.path.normpath(path)


def _data_directory(text: str) -> str:
    host, colon, inside = text.partition(":")
    path = _absolute(host) if host else ""
    if path and not os.path.exists(path):
        raise UsageError(
            f"--data-dir {host}: there is no such directory on this machine",
            hint=f"Create it (mkdir -p {shlex.quote(path)}), or name another.",
        )
    return f"{path}{colon}{inside}"


def _interpreter(text: str) -> str:
    """The interpreter that `--python` names: a program, or the directory of an environment."""
    path = os.path.expanduser(text)
    folder = os.path.join(path, "bin") if os.path.isdir(path) else ""
    choices = [f"{folder}/python3", f"{folder}/python"] if folder else [path]
    program = _which(choices, os.environ.get("PATH", os.defpath).split(os.pathsep))
    if not program:
        raise UsageError(
            f"--python {text}: there is no such interpreter on this machine",
            hint="Name a program (python3.12) or the directory of an environment (.venv).",
        )
    return os.path.join(current_directory(), program)


def _which(names: Iterable[str], path: list[str]) -> str:
    """The first of these programs that exists."""
    # Not with shutil, whose import is slow. Links stay: an interpreter finds its environment
    # beside the link.
    for name in names:
        for program in [name] if "/" in name else [os.path.join(folder, name) for folder in path]:
            if os.path.isfile(program) and os.access(program, os.X_OK):
                return program
    return ""


def _check_directory(args: Submission, directory: str, home: Home) -> None:
    if any(below(directory, path) for path in mount_paths(args)):
        return  # a volume provides it
    shown = f"--working-dir {args.working_dir}" if args.working_dir else directory
    # For an image, files may be laid over this machine's.
    over = home.images / args.image / directory.lstrip("/")
    if not os.path.isdir(directory) and not over.is_dir():
        raise UsageError(
            f"{shown}: there is no such directory on this machine",
            hint=f"Create it (mkdir -p {shlex.quote(directory)}), or name another.",
        )
    real = os.path.realpath(directory)
    for folder in home.hidden_directories(_home(), home.last_data()):
        if below(real, os.path.realpath(folder)):
            raise UsageError(
                f"{shown} is inside {folder}, which pods do not see: it holds the cluster's state",
                hint="Go to another directory, or set --working-dir.",
            )


def _directories(working_dir: str) -> tuple[str, ...]:
    """The directories to mount: home and working directory, or one that contains the other."""
    home = _home()
    present = [path for path in (home, working_dir) if path != "/" and os.path.isdir(path)]
    rows = [
        path
        for path in present
        if not any(_inside(path, other) for other in present if other != path)
    ]
    for path in rows:
        if ":" in path:  # the API takes no such mount path
            raise UsageError(
                f"the directory {path} cannot be mounted: its name contains ':'",
                hint="Rename it, or add --isolated for private directories.",
            )
    return tuple(dict.fromkeys(rows))


def _inside(path: str, folder: str) -> bool:
    """Whether mounting the folder shows the path too: by its name, and by links resolved."""
    return below(path, folder) and below(os.path.realpath(path), os.path.realpath(folder))


def _home() -> str:
    return os.path.normpath(os.path.expanduser("~"))


def _search_path(python: str) -> list[str]:
    """PATH of the job: the user's, with the active environment."""
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    if python:  # `python` must be this interpreter, whatever else its directory has
        return [local_cluster_names.PROGRAMS, os.path.dirname(python), *path]
    active = os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX") or ""
    programs = os.path.join(active, "bin")
    if active and programs not in path and os.path.isdir(programs):
        path.insert(0, programs)
    return [*path, local_cluster_names.PROGRAMS]


def _program_folders(path: list[str], python: str, variables: dict[str, str]) -> list[str]:
    """The directories of programs and libraries in places of which pods have their own."""
    folders = [*path, *(os.path.dirname(p) for p in (python, os.path.realpath(python)) if python)]
    roots = [_environment_of(os.path.normpath(folder)) for folder in folders]
    for name in ("PYTHONPATH", "LD_LIBRARY_PATH"):
        roots += variables.get(name, "").split(os.pathsep)
    return [
        root
        for root in roots
        if any(
            below(root, private) and root != private
            for private in local_cluster_names.PRIVATE_DIRECTORIES
        )
        and not below(root, local_cluster_names.PROGRAMS)
        and os.path.isdir(root)
    ]


def _environment_of(folder: str) -> str:
    """The directory that has a folder of programs, and usually the libraries for them."""
    parent = os.path.dirname(folder)
    is_part = (
        os.path.basename(folder) in _PROGRAM_FOLDERS
        and parent not in local_cluster_names.PRIVATE_DIRECTORIES
    )
    return parent if is_part else folder


def _outermost(folders: list[str], covered: tuple[str, ...]) -> tuple[str, ...]:
    """The folders that are inside no other one and inside no covered one."""
    rows = sorted(set(folders), key=len)
    result: list[str] = []
    for folder in rows:
        if not any(_inside(folder, other) for other in (*covered, *result)):
            result.append(folder)
    return tuple(result)


def _check_encoding(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"the path {text!r} is not UTF-8, so a manifest cannot name it",
            hint="Rename it, or add --isolated for private directories.",
        ) from None
