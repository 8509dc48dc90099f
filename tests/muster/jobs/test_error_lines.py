"""The lines at the end of a log that name the error."""

from __future__ import annotations

import pytest

from muster.jobs.error_lines import (
    has_lost_the_error,
    last_line,
    last_lines,
    telling_line,
    useful_lines,
)

RULE = 74 * "-"
ABORT = f"""\
{RULE}
MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD
  Proc: [[36780,1],1]
  Errorcode: 1

NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.
{RULE}
{RULE}
prterun has exited due to process rank 1 with PID 0 on node m1-worker-1 calling
"abort". This may have caused other processes in the application to be
terminated by signals sent by prterun (as reported here).
{RULE}
\0\0"""
STATUS = f"""\
{RULE}
prterun detected that one or more processes exited with non-zero status,
thus causing the job to be terminated. The first process to do so was:

   Process name: [prterun-vm-17373@1,0]
   Exit code:    3
{RULE}
"""
KILLED = f"""\
{RULE}
prterun noticed that process rank 1 with PID 17418 on node vm exited on
signal 9 (Killed).
{RULE}
"""
PEER = """\
[m1-worker-1:00000] *** An error occurred in Socket closed
[m1-worker-1:00000] *** reported by process [2874540033,1]
[m1-worker-1:00000] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,
[m1-worker-1:00000] ***    and MPI will try to terminate your MPI job as well)
"""
# A rank that reaches for another one after that one has ended.
REFUSED = f"""\
{RULE}
WARNING: Open MPI failed to TCP connect to a peer MPI process.  This
should not happen.

Your Open MPI job may now hang or fail.

  Local host: m1-worker-1
  PID:        7
  Message:    connect() to 10.0.0.7:1024 failed
  Error:      Connection refused (111)
{RULE}
"""
PMIX = (
    "[sumc-launcher-rsknk:00002] PMIX ERROR: PMIX_ERR_NOT_FOUND in file "
    "/openmpi-5.0.11/3rd-party/openpmix/src/server/pmix_server.c at line 3517\n"
)
# mpirun python -m mpi4py boom.py, with Open MPI 5.
MPI4PY = """\
Traceback (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main
  File "<frozen runpy>", line 88, in _run_code
  File "boom.py", line 4, in <module>
    raise RuntimeError("rank one hates you")
RuntimeError: rank one hates you
"""
# torchrun --nproc_per_node=2 boom.py, with torch 1.13.
TORCHRUN = """\
WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 13328 closing signal SIGTERM
ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 1 (pid: 13329)
Traceback (most recent call last):
  File "/usr/lib/python3/dist-packages/torch/distributed/run.py", line 753, in run
    elastic_launch(
  File "/usr/lib/python3/dist-packages/torch/distributed/launcher/api.py", line 246, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
boom.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-17_17:54:35
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 13329)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""
_, _, _AFTER_ERROR_FILE = TORCHRUN.partition("  error_file")
TORCHRUN_WITH_RECORD = TORCHRUN.replace(
    _AFTER_ERROR_FILE,
    """\
: /tmp/torchelastic__qzhkfv_/none_7ph0tzsp/attempt_0/1/error.json
  traceback : Traceback (most recent call last):
    File "/usr/lib/python3/dist-packages/torch/distributed/elastic/errors.py", line 346, in wrapper
      return f(*args, **kwargs)
             ^^^^^^^^^^^^^^^^^^
    File "boom.py", line 6, in main
      raise RuntimeError("rank one hates you")
  RuntimeError: rank one hates you

============================================================
""",
)
NO_EXCEPTION = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
TRACEBACK = 'Traceback (most recent call last):\n  File "train.py"\nValueError: bad batch\n'


def test_the_error_of_a_rank_comes_before_the_boxes_of_open_mpi() -> None:
    for boxes in (ABORT, STATUS):
        assert useful_lines(TRACEBACK + boxes) == TRACEBACK.splitlines()
        assert last_line(TRACEBACK + boxes) == "ValueError: bad batch"


def test_a_rank_that_lost_another_one_does_not_name_the_error() -> None:
    for text in (TRACEBACK + PEER + ABORT, PEER + TRACEBACK + ABORT, TRACEBACK + ABORT + PEER):
        assert useful_lines(text) == TRACEBACK.splitlines()

    own = PEER.replace("Socket closed", "MPI_Recv")
    assert useful_lines("step 1\n" + own)[1] == own.splitlines()[0]
    assert useful_lines(PEER) == PEER.splitlines()


def test_a_rank_that_reaches_none_does_not_name_the_error_of_the_one_that_ended() -> None:
    assert useful_lines(TRACEBACK + REFUSED + ABORT + REFUSED) == TRACEBACK.splitlines()
    assert last_line(REFUSED) == "Error:      Connection refused (111)"


@pytest.mark.parametrize("above", ["", "step 1\n", TRACEBACK])
def test_a_message_of_boxes_that_is_cut_has_lost_the_error(above: str) -> None:
    boxes = ABORT + 5 * REFUSED
    text = above + boxes

    assert has_lost_the_error(text[-2048:])
    assert has_lost_the_error(text) == (above == "")
    assert not has_lost_the_error(above + REFUSED)


def test_a_message_that_is_cut_above_its_boxes_has_the_error() -> None:
    printed = 30 * "a line of output before the error, which has no traceback\n"

    assert not has_lost_the_error((printed + "no such file: data.csv\n" + ABORT)[-2048:])
    assert not has_lost_the_error(5 * REFUSED + KILLED)


def test_a_text_cut_within_a_box_still_shows_the_error_of_the_rank() -> None:
    cut = ABORT.split("\n", 3)[3]

    assert useful_lines(cut + TRACEBACK + ABORT)[-3:] == TRACEBACK.splitlines()


def test_a_box_that_names_the_cause_is_shown() -> None:
    assert last_line(KILLED) == "signal 9 (Killed)."
    assert useful_lines("step 1\n" + KILLED)[0] == "step 1"


def test_a_box_is_shown_if_there_is_nothing_else() -> None:
    assert last_line(STATUS) == "Exit code:    3"


def test_a_nul_byte_is_not_text() -> None:
    assert useful_lines("bo\0om\n\0") == ["boom"]
    assert last_line("\0\n") == ""


@pytest.mark.parametrize(
    "report", ["", PMIX, PMIX + ABORT, ABORT + PMIX, STATUS, TORCHRUN, TORCHRUN_WITH_RECORD]
)
def test_an_exception_names_the_error_and_not_the_report_of_the_launcher(report: str) -> None:
    text = f"step 1\n{MPI4PY}{report}"

    assert last_line(text) == "RuntimeError: rank one hates you"
    assert useful_lines(text) == text.removesuffix(report).splitlines()


@pytest.mark.parametrize("tag", ["[1,1]<stderr>: ", "[default1]:"])
def test_an_exception_in_lines_that_begin_with_their_rank_names_the_error(tag: str) -> None:
    tagged = "".join(f"{tag}{row}\n" for row in MPI4PY.splitlines())

    assert last_line(f"{tagged}[default0]:step 2") == f"{tag}RuntimeError: rank one hates you"


def test_the_summary_of_torchrun_is_the_error_if_no_process_wrote_one() -> None:
    killed = TORCHRUN.replace(NO_EXCEPTION, "Signal 9 (SIGKILL) received by PID 18187")

    assert last_line(f"step 1\n{killed}") == "traceback : Signal 9 (SIGKILL) received by PID 18187"
    # A pod's status has 2048 bytes of the log: the exception itself may be cut off.
    assert last_line(TORCHRUN_WITH_RECORD) == "RuntimeError: rank one hates you"


def test_lines_that_others_write_after_an_exception_do_not_hide_it() -> None:
    many = [f"step {number}" for number in range(20)]
    rows = last_lines("\n".join([MPI4PY.rstrip(), *many]), 10)

    assert telling_line(rows) == rows[-1] == "RuntimeError: rank one hates you"
    assert last_lines("\n".join([MPI4PY.rstrip(), *many[:2]]), 3) == [
        "RuntimeError: rank one hates you",
        *many[:2],
    ]


def test_the_last_of_several_exceptions_names_the_error() -> None:
    chained = "\nDuring handling of the above exception, another exception occurred:\n\n"
    text = f"{TRACEBACK}{chained}{MPI4PY}"

    assert last_line(text) == "RuntimeError: rank one hates you"


def test_the_first_line_of_an_exception_with_several_lines_names_the_error() -> None:
    assert last_line(f"{TRACEBACK}  input_value=7\n  see the manual\n") == "ValueError: bad batch"


def test_without_a_traceback_the_last_line_names_the_error() -> None:
    assert last_line("note: see below\nno such file: data.csv\n\n") == "no such file: data.csv"
    assert last_line(PMIX).startswith("[sumc-launcher-rsknk:00002] PMIX ERROR")
    assert telling_line([]) == ""
