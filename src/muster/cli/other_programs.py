"""Verbs and flags of other programs (docker, kubectl, ray, slurm), and what to write instead.

Only the errors about an unknown verb or flag read these tables.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_SUBMIT = '`arena submit tf --name=NAME "python train.py"` runs a command as a job'
_LIST = "`arena list` lists jobs"
_GET = "`arena get JOB` shows a job, its replicas and why it waits"
_DELETE = "`arena delete JOB` deletes a job, `arena suspend JOB` stops it without deleting it"
_STOP = "`arena suspend JOB` stops a job, `arena down` stops the local cluster"
_START = "`arena up` starts the local cluster, `arena resume JOB` starts a suspended job again"
_ATTACH = "`arena attach JOB -- COMMAND` runs a command in a replica of a job"
_LOGS = "`arena logs -f JOB` prints and follows a log"
_TOP = "`arena top job` and `arena top node` show the resources in use"
_NODES = "`arena get nodes` lists nodes, `arena top node` shows their resources"
_STATUS = "`arena status` shows the cluster in use"
_EXPLAIN = "`arena explain JOB` says why a job waits, and its place in line"
_CHANGE = "`arena scale JOB --workers N` changes a job, `arena apply -f FILE` any object"
_FILES = "mount files with `arena submit … --data-dir`, or fetch code with `--sync-mode`"
_BOARD = "`arena open` opens the dashboard, `arena open JOB` a job's TensorBoard"
_CONTEXT = "`arena use local` or `arena use kube:CONTEXT` chooses the cluster"

_WORDS = {
    _SUBMIT: "run train launch sbatch srun salloc qsub bsub mpirun torchrun python",
    _LIST: "ps jobs job squeue sacct qstat bjobs history",
    _GET: "describe show inspect scontrol details info",
    _DELETE: "kill rm remove cancel scancel qdel bkill terminate abort destroy cleanup",
    _STOP: "stop halt pause shutdown hold",
    _START: "start init restart unpause continue boot",
    _ATTACH: "exec sh bash shell ssh console enter",
    _LOGS: "tail cat output follow stdout",
    _TOP: "stats memory usage monitor sstat htop gpu gpus",
    _NODES: "nodes node sinfo pbsnodes bhosts",
    "`arena get pods` lists pods, `arena list` jobs": "pods pod po instances containers",
    _STATUS: "cluster-info cluster ping health",
    _EXPLAIN: "why queue pending events",
    _CHANGE: "edit patch update set replace rollout autoscale",
    _FILES: "cp copy upload sync mount push rsync",
    _BOARD: "tensorboard ui port-forward web browse",
    _CONTEXT: "context contexts switch login connect",
    "`arena wait JOB` waits for a job, `arena logs -f JOB` follows it": "watch join",
    "there are no images to build: a job runs the image that --image names": "build pull images",
    "`arena get KIND` lists objects of a kind": "api-resources kinds",
}
HABITS: dict[str, str] = {word: hint for hint, words in _WORDS.items() for word in words.split()}
"""The hint for each verb of another program."""

_DELETE_MANY = (
    "`arena delete JOB…` deletes the jobs that it names, `arena prune --since 1h` those that ended "
    "at least an hour ago"
)
_ALL_LOGS = "`arena logs --all JOB` prints the logs of all replicas, --container names a container"
_ALL_JOBS = "`arena list` lists finished jobs too, `arena list -A` the jobs of all namespaces"
_LABELS = "`arena get jobs -l KEY=VALUE` lists jobs by their labels"

_FLAGS = {
    ("delete", _DELETE_MANY): "--all -A --all-namespaces --selector -l",
    ("delete", "`arena delete JOB…` takes names, not files"): "--filename -f",
    ("delete", "`arena delete JOB` deletes a running job too"): "--force --grace-period --now",
    ("delete", "`arena wait JOB --for deleted` waits for the deletion"): "--wait",
    ("logs", _ALL_LOGS): "--all-containers --all-pods --prefix --selector -l",
    ("logs", "write --previous"): "-p",
    ("list", _ALL_JOBS): "--all -a",
    ("list", _LABELS): "--selector -l",
    ("list", "`arena list -o name` prints names only"): "--quiet -q",
    ("scale", "write --workers"): "--replicas",
    ("up", "write --detach"): "-d",
}
FLAG_HABITS: dict[tuple[str, str], str] = {
    (verb, flag): hint for (verb, hint), flags in _FLAGS.items() for flag in flags.split()
}
"""The hint for each flag of another program, by our verb and the flag."""

NO_NAME = {"get": "`arena list` lists all jobs, with -w as they change"}
"""The hint for a verb without a name."""

DESTRUCTIVE = ("prune", "delete", "del", "down")


def hint_for(given: str, known: Iterable[str]) -> str:
    """A hint for an unknown verb; empty if no verb is similar."""
    word = given.lower()
    near = nearest_verb(word, known)
    if word not in HABITS and not near:
        word = next(iter(difflib.get_close_matches(word, HABITS, n=1, cutoff=0.8)), word)
    return HABITS.get(word) or (f"did you mean {near}?" if near else "")


def nearest_verb(given: str, known: Iterable[str]) -> str:
    """The verb that was probably meant, or nothing.

    A verb that deletes or stops something is proposed only if it differs by one letter and
    no other verb is similar: users may type a proposal without reading about it first.
    """
    harmless = [verb for verb in known if verb not in DESTRUCTIVE]
    similar = difflib.get_close_matches(given, harmless, n=1)
    if similar:
        return similar[0]
    if difflib.get_close_matches(given, HABITS, n=1, cutoff=0.8):
        return ""
    return next((verb for verb in DESTRUCTIVE if is_one_letter_off(given, verb)), "")


def is_one_letter_off(given: str, word: str) -> bool:
    """Whether one letter was added, left out, replaced or exchanged with its neighbour."""
    start = 0
    while start < min(len(given), len(word)) and given[start] == word[start]:
        start += 1
    rest, expected = given[start:], word[start:]
    return given != word and (
        rest[1:] == expected[1:]
        or rest[1:] == expected
        or rest == expected[1:]
        or (rest[:2] == expected[1::-1] and rest[2:] == expected[2:])
    )
