"""Following a log waits for the pod, reconnects after a break, and ends with the pod."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Generator, Iterator
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from kubekit.client.blocking_client import BlockingClient
from kubekit.errors import MusterError
from kubekit.objects.core import Pod, PodLog
from kubekit.objects.kinds import POD_LOGS, Kind
from kubekit.objects.meta import Key, ObjectMeta
from kubekit.request_errors import BadRequest, NotFound, ServerError, Unreachable
from muster.client.logs import job_logs, pod_log
from muster.client.logs.attempts import LogSource
from muster.client.logs.pod_log import LogOptions, ResumableLog
from tests.builders import container, read_pod
from tests.waiting import until

KEY = Key("default", "p")
Play = list[bytes | Exception]


def pod(phase: str, uid: str = "u", restarts: int = 0, *, waits: bool = False) -> Pod:
    running: dict[str, Any] = {"running": {}} if phase == "Running" and not waits else {}
    row = {"name": "c", "state": running, "restartCount": restarts}
    status = {"phase": phase, "containerStatuses": [row]}
    return read_pod("p", container("c"), meta={"namespace": "default", "uid": uid}, status=status)


class Script:
    """Streams that are played one after the other, and the pod as it is after each."""

    def __init__(self, streams: list[Play], after: list[Pod | Exception]) -> None:
        self.streams, self.after = iter(streams), iter(after)
        self.requests: list[dict[str, Any]] = []

    def __enter__(self) -> Script:
        return self

    def __exit__(self, *_: object) -> None: ...

    def get(self, *_: object) -> Pod:
        outcome = next(self.after)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def list(self, kind: Kind[Any], *_: object, **__: object) -> Any:
        if kind is POD_LOGS:
            raise NotFound("only the local cluster serves them")
        return type("L", (), {"items": [pod("Running")], "resource_version": "1"})

    def logs(self, _: Key, **options: Any) -> Iterator[bytes]:
        self.requests.append(options)
        for piece in next(self.streams, ()):
            if isinstance(piece, Exception):
                raise piece
            yield piece


def line(second: int, text: str) -> bytes:
    return f"2026-01-02T03:04:{second:02}.000000000Z {text}\n".encode()


def run(script: Script, wanted: LogOptions) -> bytes:
    return b"".join(job_logs.read_log(cast(BlockingClient, script), KEY, wanted))


def notes_of(script: Script) -> list[str]:
    """What is reported while the log is followed."""
    notes: list[str] = []
    for _ in job_logs.read_log(
        cast(BlockingClient, script), KEY, LogOptions(follow=True), notes.append
    ):
        pass
    return notes


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_log, "POLL_SECONDS", 0)


def test_a_log_that_breaks_off_continues_where_it_was() -> None:
    away = Unreachable("gone")
    script = Script(
        [[line(1, "a"), line(2, "b"), away], [line(1, "a"), line(2, "b"), line(3, "c")]],
        [pod("Running"), away, away, pod("Running"), pod("Succeeded")],
    )

    assert run(script, LogOptions(follow=True, tail=5)) == b"a\nb\nc\n"
    assert [each["tail"] for each in script.requests] == [5, None, None]
    assert script.requests[1]["since"] is not None


def test_a_stream_that_ends_while_the_pod_runs_is_opened_again() -> None:
    script = Script(
        [[line(1, "a")], [line(1, "a"), line(2, "b")]],
        [pod("Running"), pod("Running"), pod("Succeeded")],
    )

    assert run(script, LogOptions(follow=True)) == b"a\nb\n"


def test_lines_that_a_pod_wrote_after_the_end_of_its_stream_are_read() -> None:
    script = Script(
        [[line(1, "a")], [line(1, "a"), line(2, "b")]], [pod("Running"), pod("Succeeded")]
    )

    assert run(script, LogOptions(follow=True)) == b"a\nb\n"


def test_a_pod_that_is_deleted_before_the_end_of_its_log_is_read_again_is_no_error() -> None:
    script = Script(
        [[line(1, "a")], [NotFound("pods")]], [pod("Running"), pod("Succeeded"), NotFound("pods")]
    )

    assert run(script, LogOptions(follow=True)) == b"a\n"


def test_a_node_that_does_not_answer_is_reported_once_and_asked_ever_more_rarely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(pod_log, "POLL_SECONDS", 0.3)
    monkeypatch.setattr("time.sleep", pauses.append)
    away, later = ServerError("no such host"), ServerError("connection refused")
    breaks: list[Play] = [[away], [away], [away], [later], [later], [line(1, "a"), away]]
    script = Script([*breaks, [line(2, "b")]], [*[pod("Running")] * 7, pod("Succeeded")])

    assert notes_of(script) == [
        f"the log of p broke off: {error}; waiting for the cluster" for error in (away, later, away)
    ]
    assert pauses == sorted(pauses)
    assert 0.3 < sum(pauses) < pod_log.LONGEST_PAUSE * len(breaks)


def test_a_log_that_ends_at_once_again_and_again_is_not_opened_without_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(pod_log, "POLL_SECONDS", 0.3)
    monkeypatch.setattr("time.sleep", pauses.append)
    script = Script([[line(1, "a")]] * 5, [*[pod("Running")] * 5, pod("Succeeded")])

    assert run(script, LogOptions(follow=True)) == b"a\n"
    assert len(pauses) == 4


@pytest.mark.parametrize("last", ["Running", "Succeeded"])
def test_each_new_attempt_is_announced_before_its_lines(last: str) -> None:
    script = Script(
        [[line(1, "a")], [line(2, "b")], [line(3, "c")]],
        # The second attempt ends before anybody looks.
        [pod("Running"), pod("Running", restarts=1, waits=True), pod(last, restarts=2),
         pod("Succeeded", restarts=2)],
    )  # fmt: skip
    seen: list[str] = []
    client, see = cast(BlockingClient, script), seen.append
    for chunk in job_logs.read_log(client, KEY, LogOptions(follow=True), see):
        see(chunk.decode())

    assert seen == ["a\n", "-- p: attempt 2 --", "b\n", "-- p: attempt 3 --", "c\n"]


@pytest.mark.parametrize("end", [pod("Failed"), pod("Running", "another"), NotFound("x")])
def test_following_ends_with_the_pod(end: Pod | Exception) -> None:
    script = Script([[line(1, "a")]], [pod("Running"), end])

    assert run(script, LogOptions(follow=True)) == b"a\n"


def test_following_ends_when_the_cluster_stays_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_log, "RECONNECT_TIMEOUT", -1)
    script = Script([[Unreachable("x")]], [pod("Running"), Unreachable("gone")])

    with pytest.raises(Unreachable, match="gone"):
        run(script, LogOptions(follow=True))


def test_without_follow_the_log_is_read_once() -> None:
    script = Script([[b"a\n", b"b"]], [pod("Running")])

    assert run(script, LogOptions(tail=2)) == b"a\nb"
    assert script.requests == [
        {
            "container": "", "follow": False, "tail": 2, "since": None,
            "timestamps": False, "previous": False,
        }
    ]  # fmt: skip


@pytest.mark.parametrize("follows", [True, False])
def test_chunks_of_many_logs_come_with_their_pod_and_an_end(follows: bool) -> None:
    def connect() -> BlockingClient:
        first = line(1, "a") + line(2, "b") if follows else b"a\nb\n"
        return cast(BlockingClient, Script([[first]], [pod("Running"), pod("Succeeded")]))

    keys = [Key("default", "w-0"), Key("default", "w-10")]
    sources = [LogSource(key) for key in keys]
    chunks = list(job_logs.read_many(connect, sources, LogOptions(follow=follows)))

    for key in keys:
        assert [data for owner, data in chunks if owner == key] == [b"a\nb\n", b""]


def test_a_log_that_cannot_be_read_does_not_end_the_others() -> None:
    there = pod("Running")
    scripts = iter([Script([[NotFound("no log")]], [there]), Script([[b"a\n"]], [there])])
    keys = [Key("default", "x"), Key("default", "y")]
    warnings: list[str] = []

    def connect() -> BlockingClient:
        return cast(BlockingClient, next(scripts))

    sources = [LogSource(key) for key in keys]
    chunks = list(job_logs.read_many(connect, sources, LogOptions(), warn=warnings.append))

    assert chunks == [(keys[1], b"a\n"), (keys[1], b"")]
    assert warnings == ["x: no log"]


def test_it_is_an_error_if_no_log_can_be_read() -> None:
    script = Script([[NotFound("no log")]], [pod("Running")])

    with pytest.raises(NotFound):
        list(
            job_logs.read_many(lambda: cast(BlockingClient, script), [LogSource(KEY)], LogOptions())
        )


def test_closing_the_generator_ends_the_threads() -> None:
    def endless() -> Iterator[bytes]:
        for second in itertools.count():
            yield line(second % 60, "a")

    class Endless(Script):
        def logs(self, _: Key, **options: Any) -> Iterator[bytes]:
            return endless()

    script = Endless([], [pod("Running")])
    before = threading.active_count()
    chunks = job_logs.read_many(
        lambda: cast(BlockingClient, script),
        [LogSource(KEY)],
        LogOptions(follow=True, timestamps=True),
    )
    next(chunks)

    cast(Generator[Any], chunks).close()

    until(lambda: threading.active_count() == before, what="the threads have ended")


def initialising(**state: Any) -> Pod:
    """A pod whose code is being fetched."""
    status = {
        "phase": "Pending",
        "initContainerStatuses": [{"name": "init-code", **state}],
        "containerStatuses": [{"name": "main", "state": {"waiting": {}}}],
    }
    return read_pod(meta={"uid": "u"}, status=status)


FAILED = {"terminated": {"exitCode": 128}}


@pytest.mark.parametrize(
    ("current", "container"),
    [
        (initialising(state={"running": {}}), "init-code"),
        (initialising(state=FAILED), "init-code"),
        (initialising(state={"waiting": {}}, lastState=FAILED), "init-code"),
        (initialising(state={"terminated": {"exitCode": 0}}), ""),
        (initialising(state={"waiting": {}}), ""),
        (pod("Running"), ""),
    ],
)
def test_while_an_init_container_runs_its_log_is_read(current: Pod, container: str) -> None:
    script = Script([[b"x"]], [current])

    run(script, LogOptions())

    assert script.requests[0]["container"] == container


def test_a_container_that_is_named_is_read_whatever_happens() -> None:
    script = Script([[b"x"]], [initialising(state=FAILED)])

    run(script, LogOptions(container="main"))

    assert script.requests[0]["container"] == "main"


def test_a_pod_that_was_evicted_is_reported() -> None:
    taken = {"type": "DisruptionTarget", "status": "True", "message": "The cluster was stopped."}
    ended = read_pod(meta={"uid": "u"}, status={"phase": "Failed", "conditions": [taken]})
    play = Script([[line(1, "a")]], [pod("Running"), ended])

    assert notes_of(play) == ["p was stopped from outside: The cluster was stopped."]


def test_a_pod_that_was_replaced_while_the_cluster_was_unreachable_is_reported() -> None:
    gone = Unreachable("refused")
    play = Script([[line(1, "a")]], [pod("Running"), gone, gone, pod("Running", uid="new")])

    assert notes_of(play) == [
        "the cluster is unreachable: refused; waiting for it",
        "p was replaced by a new pod",
    ]


def stuck(message: str = "") -> Pod:
    """A pod that has not started, and the reason."""
    waiting = {"reason": "CreateContainerConfigError", "message": message} if message else {}
    rows = [{"name": "main", "state": {"waiting": waiting}}]
    status = {"phase": "Pending", "containerStatuses": rows}
    return read_pod(meta={"uid": "u"}, status=status)


class Waiting(Script):
    """A client that lists the first pod, and then watches the others."""

    def __init__(self, *pods: Pod) -> None:
        super().__init__([[line(1, "a")]], [pod("Running"), pod("Succeeded")])
        self.first, *self.later = pods

    def list(self, kind: Kind[Any], *_: object, **__: object) -> Any:
        if kind is POD_LOGS:
            raise NotFound("only the local cluster serves them")
        return type("L", (), {"items": [self.first], "resource_version": "1"})

    def watch(self, *_: object, **__: object) -> Iterator[Any]:
        for seen in self.later:
            yield type("E", (), {"type": "MODIFIED", "object": seen})


def test_the_reason_why_a_pod_does_not_start_is_reported_when_it_changes() -> None:
    why = 'secret "keys" not found'
    script = Waiting(stuck(), stuck(why), stuck(why), stuck("another"), pod("Running"))

    assert notes_of(script) == [
        "waiting for p to start …",
        f"waiting for p to start: CreateContainerConfigError: {why}",
        "waiting for p to start: CreateContainerConfigError: another",
    ]


def test_a_reason_that_is_known_at_once_is_reported_at_once() -> None:
    notes = notes_of(Waiting(stuck("x"), pod("Running")))

    assert notes == ["waiting for p to start: CreateContainerConfigError: x"]


def test_a_log_that_does_not_exist_yet_is_an_error_with_the_reason() -> None:
    refusal = BadRequest('container "main" in pod "p" is waiting to start', status=400)
    script = Script([[refusal]], [stuck('secret "keys" not found')])

    with pytest.raises(MusterError) as error:
        run(script, LogOptions())

    assert str(error.value) == f'{refusal}: CreateContainerConfigError: secret "keys" not found'
    assert error.value.hint == "`arena logs -f p` waits."


def test_the_end_of_a_log_is_read_if_the_pod_ended_while_the_cluster_was_away() -> None:
    script = Script(
        [[line(1, "a"), Unreachable("broken")], [line(1, "a"), line(2, "b")]],
        [pod("Running"), pod("Failed")],
    )

    assert run(script, LogOptions(follow=True)) == b"a\nb\n"


class ArchivingScript(Script):
    """A cluster that has the logs of pods that are gone."""

    def list(self, kind: Kind[Any], *_: object, **__: object) -> Any:
        if kind is not POD_LOGS:
            return super().list(kind)
        meta = ObjectMeta(namespace="default")
        attempts = [
            PodLog(replace(meta, name=f"{uid}.c.0"), pod_name="p", pod_uid=uid, container="c")
            for uid in ("former", "u")
        ]
        return type("L", (), {"items": attempts})

    def log_of(self, kind: Kind[Any], key: Key, **options: Any) -> Iterator[bytes]:
        assert key.name == "u.c.0"
        return self.logs(key, **options)


def test_the_end_of_a_log_is_read_if_the_pod_was_deleted_while_the_cluster_was_away() -> None:
    script = ArchivingScript(
        [[line(1, "a"), Unreachable("broken")], [line(1, "a"), line(2, "b")]],
        [pod("Running"), NotFound("gone")],
    )

    assert run(script, LogOptions(follow=True, tail=5)) == b"a\nb\n"
    assert not script.requests[-1]["follow"]
    assert script.requests[-1]["tail"] is None


BEGIN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def log(ticks: list[tuple[int, bytes]]) -> list[bytes]:
    """Lines with timestamps that never decrease; several may be equal."""
    at, lines = 0, []
    for more, text in ticks:
        at += more
        lines.append(b"2026-01-02T03:04:05.%09dZ %s\n" % (at, text))
    return lines


words = st.binary(max_size=12).filter(lambda text: b"\n" not in text)
logs = st.lists(st.tuples(st.integers(0, 1), words), max_size=12).map(log)


@given(logs, st.lists(st.integers(0, 400), max_size=4), st.integers(1, 7))
def test_nothing_is_printed_twice_or_left_out(
    lines: list[bytes], breaks: list[int], size: int
) -> None:
    """Each stream begins at the beginning, as a server does whose clock is coarse."""
    whole = b"".join(lines)
    tail = ResumableLog()
    printed = b""
    for end in (*breaks, len(whole)):
        # A server sends whole lines: a broken line was never a line of the log.
        part = whole[: whole.rfind(b"\n", 0, end) + 1]
        for start in range(0, len(part), size):
            printed += tail.feed(part[start : start + size])
        tail.reopened()

    assert printed == b"".join(line.partition(b" ")[2] for line in lines)


def test_no_line_is_dropped_when_the_clock_of_the_node_is_set_back() -> None:
    first, earlier, last = log([(5, b"a"), (-3, b"b"), (0, b"c")])
    tail = ResumableLog()

    assert tail.feed(first + earlier) == b"a\nb\n"
    tail.reopened()
    assert tail.feed(earlier + last) == b"c\n"
    assert tail.feed(log([(1, b"d")])[0]) == b"d\n"


def test_timestamps_stay_on_request() -> None:
    line = b"2026-01-02T03:04:05.1Z hello\n"

    assert ResumableLog(timestamps=True).feed(line) == line
    assert ResumableLog().feed(line) == b"hello\n"


def test_the_beginning_of_a_line_is_not_held_back() -> None:
    tail = ResumableLog()

    assert tail.feed(b"2026-01-02T03:04:05.1Z 10%") == b"10%"
    assert tail.feed(b"\r20%") == b"\r20%"
    assert tail.feed(b"\n") == b"\n"


def test_a_line_without_a_timestamp_passes_unchanged() -> None:
    assert ResumableLog().feed(b"failed to open the log\n") == b"failed to open the log\n"


@pytest.mark.parametrize(("later", "back"), [(0, 2.0), (10, 12.0)])
def test_a_new_stream_begins_a_little_before_the_last_line(later: int, back: float) -> None:
    tail = ResumableLog()
    assert tail.since(BEGIN) is None
    tail.feed(b"2026-01-02T03:04:05.123456789Z x\n")

    assert tail.since(BEGIN.replace(second=5 + later)) == back
