"""From the flags of `arena submit` to manifests. Pure: the same flags give the same bytes.

`submission` holds what was asked for, `values` reads single values and `check` refuses what no
cluster could run; `roles` says who is in a job, `pod` and what it draws on (`volumes`, `code`,
`placement`) make their templates; `job` and `board` put the objects together. Called by
`cli/submit`. Wrong values raise UsageError naming the flag and what to write. Values become strings
of a JSON document, never text in a template, so quoting is always right.
"""

from muster.jobs.submission.flag_values import pairs, seconds, suggest_name
from muster.jobs.submission.flags import (
    BY_TYPE,
    Jax,
    Mpi,
    PyTorch,
    Site,
    Submission,
    TensorFlow,
)
from muster.jobs.submission.job_manifest import Bundle, bundle
from muster.jobs.submission.roles import flags_without_effect

__all__ = [
    "BY_TYPE",
    "Bundle",
    "Jax",
    "Mpi",
    "PyTorch",
    "Site",
    "Submission",
    "TensorFlow",
    "bundle",
    "flags_without_effect",
    "pairs",
    "seconds",
    "suggest_name",
]
