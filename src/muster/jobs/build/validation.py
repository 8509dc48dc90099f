"""Rejecting a submission that no cluster could run, flag by flag, before anything is built.

Values that mean something only for a role or a volume are checked where that is built.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from kubekit.errors import UsageError
from muster.contract.gang import PREFERRED_TOPOLOGY_ANNOTATION, TOPOLOGY_ANNOTATION
from muster.jobs.build import code_sync, flag_values
from muster.jobs.build.flags import PyTorch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.jobs.build.flags import Submission

_CPU = ("cpu", "cpu_limit")
_MEMORY = ("memory", "memory_limit")


def validate(args: Submission) -> None:
    """Raise UsageError for the first invalid flag."""
    flag_values.job_name(args.name)
    _numbers(args)
    if not "".join(args.command).strip():
        raise UsageError(
            "the training command is missing",
            hint='Add it at the end: arena submit … "python train.py"',
        )
    if not args.shell.strip():
        raise UsageError("--shell is empty", hint="For example --shell=bash")
    if not args.directory.startswith("/"):
        raise flag_values.wrong(
            "--working-dir", args.directory, "Write --working-dir=/absolute/path"
        )
    if "://" not in args.logdir:  # TensorBoard reads hdfs://… and the like itself
        flag_values.path("--logdir", args.logdir, "Write --logdir=/absolute/path")
    _words(args)
    _amounts(args)
    _model(args)
    code_sync.check(args)
    if isinstance(args, PyTorch) and args.nproc_per_node:
        _processes(args.nproc_per_node)


def _flags(args: Submission, *endings: str) -> Iterator[tuple[str, str]]:
    """Every field with one of these endings, and its flag."""
    for field in fields(args):
        if field.name.endswith(endings):
            yield field.name, f"--{field.name.replace('_', '-')}"


def _numbers(args: Submission) -> None:
    for field, flag in _flags(args, ""):  # every field ends with ""
        number = getattr(args, field)
        if not isinstance(number, int):
            continue
        if field.endswith("_port"):
            if not 0 <= number < 65536:
                raise UsageError(f"{flag} is invalid", hint="Write a port between 1 and 65535.")
        elif field == "workers" and number < 1:
            raise UsageError("--workers must be at least 1")
        elif number < 0:
            raise UsageError(f"{flag} is invalid: it cannot be negative")
        elif number > flag_values.MAX_INT32:
            raise flag_values.wrong(flag, str(number), f"It is at most {flag_values.MAX_INT32}.")


def _words(args: Submission) -> None:
    for field, flag in _flags(args, "image", "scheduler"):
        flag_values.one_word(flag, getattr(args, field))
    flag_values.label_keys("--topology", args.topology)
    annotations = flag_values.keyed("--annotation", args.annotation)
    for name in (TOPOLOGY_ANNOTATION, PREFERRED_TOPOLOGY_ANNOTATION):
        flag_values.label_keys(f"--annotation={name}", annotations.get(name, ""))
    for field, flag in _flags(args, "selector"):
        flag_values.labels(flag, getattr(args, field))


def _amounts(args: Submission) -> None:
    for field, flag in _flags(args, *_CPU):
        flag_values.cpu(flag, getattr(args, field))
    for field, flag in _flags(args, *_MEMORY):
        flag_values.memory(flag, getattr(args, field))
    for field, flag in _flags(args, "_limit"):
        limit = getattr(args, field)
        own = field.removesuffix("_limit")
        name = own if getattr(args, own) else own.rpartition("_")[2]  # --ps-cpu, else --cpu
        request = getattr(args, name)
        if request and limit and flag_values.less(limit, request):
            hint = f"It is less than --{name.replace('_', '-')}={request}"
            raise flag_values.wrong(flag, limit, hint)


def _model(args: Submission) -> None:
    if args.model_name and not args.model_source:
        raise UsageError(
            "--model-source must be set when --model-name is set",
            hint="For example --model-source=pvc://models/mnist",
        )


def _processes(text: str) -> None:
    if text not in ("auto", "cpu", "gpu") and not (
        text.isdecimal() and 0 < int(text) <= flag_values.MAX_INT32
    ):
        raise flag_values.wrong("--nproc-per-node", text, "Write auto, cpu, gpu or a number.")
