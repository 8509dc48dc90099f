"""Muster: gang-scheduled distributed training, on one machine and on any Kubernetes cluster.

    import muster

    job = muster.submit("pytorch", "torchrun train.py", name="resnet", workers=4, gang=True)
    job.wait(timeout="2h")

The names are imported when they are first used, so that `import muster` costs next to nothing.
"""

from __future__ import annotations

from muster.version import __version__

TYPE_CHECKING = False  # importing typing would cost more than all the rest

if TYPE_CHECKING:
    from kubekit.errors import ConfigError, MusterError, UsageError
    from kubekit.request_errors import (
        AlreadyExists,
        ApiError,
        Conflict,
        Forbidden,
        NotFound,
        Unauthorized,
        Unreachable,
    )
    from muster.client.jobs.waiting import JobFailed, WaitTimeout
    from muster.client.target import NoCluster
    from muster.contract.job_explanation import JobExplanation
    from muster.contract.job_fields import InvalidJob
    from muster.jobs.view.summary import JobSummary
    from muster.sdk import aio
    from muster.sdk.calls import get_job, list_jobs, submit
    from muster.sdk.functions.result import RemoteError, ResultError, UntrustedResult
    from muster.sdk.functions.run import run
    from muster.sdk.job import Job
    from muster.sdk.local_cluster import LocalCluster, local_cluster
    from muster.sdk.notebook.curves import Curves

_MODULES = {
    "kubekit.errors": "ConfigError MusterError UsageError",
    "kubekit.request_errors": "AlreadyExists ApiError Conflict Forbidden NotFound Unauthorized "
    "Unreachable",
    "muster.contract.job_fields": "InvalidJob",
    "muster.client.jobs.waiting": "JobFailed WaitTimeout",
    "muster.client.target": "NoCluster",
    "muster.sdk.functions.result": "RemoteError ResultError UntrustedResult",
    "muster.sdk.aio": "aio",
    "muster.sdk.calls": "get_job list_jobs submit",
    "muster.jobs.view.summary": "JobSummary",
    "muster.contract.job_explanation": "JobExplanation",
    "muster.sdk.functions.run": "run",
    "muster.sdk.job": "Job",
    "muster.sdk.notebook.curves": "Curves",
    "muster.sdk.local_cluster": "LocalCluster local_cluster",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "AlreadyExists",
    "ApiError",
    "ConfigError",
    "Conflict",
    "Curves",
    "Forbidden",
    "InvalidJob",
    "Job",
    "JobExplanation",
    "JobFailed",
    "JobSummary",
    "LocalCluster",
    "MusterError",
    "NoCluster",
    "NotFound",
    "RemoteError",
    "ResultError",
    "Unauthorized",
    "Unreachable",
    "UntrustedResult",
    "UsageError",
    "WaitTimeout",
    "__version__",
    "aio",
    "get_job",
    "list_jobs",
    "local_cluster",
    "run",
    "submit",
]


if not TYPE_CHECKING:  # else every name would exist for a type checker

    def __getattr__(name):
        module = _MODULE_OF.get(name)
        if module is None:
            raise AttributeError(f"module 'muster' has no attribute {name!r}")
        from importlib import import_module

        found = import_module(module)
        globals()[name] = found if name == "aio" else getattr(found, name)
        return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
