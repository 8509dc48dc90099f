"""The lines at the end of a log that name the error."""

from __future__ import annotations

from muster.jobs.log_tail import last_line, useful_lines

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


def test_a_text_cut_within_a_box_still_shows_the_error_of_the_rank() -> None:
    cut = ABORT.split("\n", 3)[3]

    assert useful_lines(cut + TRACEBACK + ABORT)[-3:] == TRACEBACK.splitlines()


def test_a_box_that_names_the_cause_is_shown() -> None:
    assert last_line(KILLED) == "signal 9 (Killed)."
    assert useful_lines("step 1\n" + KILLED)[0] == "step 1"


def test_a_box_is_shown_if_there_is_nothing_else() -> None:
    assert last_line(STATUS) == "Exit code:    3"


def test_a_nul_byte_is_no_text() -> None:
    assert useful_lines("bo\0om\n\0") == ["boom"]
    assert last_line("\0\n") == ""
