"""Where an expression is evaluated: here, or in a process that can be ended.

A short expression without loops and without anything that makes values larger takes time in
proportion to its object. It is evaluated here, in microseconds. Every other expression could take
any time and any memory (the library bounds only the number of iterations), so a process of its own
evaluates it, with two seconds of processor time (see `worker`). A thread waits for the process, so
that the server answers other requests meanwhile.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from localkube.apiserver.cel.batches import RESULTS, TOO_MUCH, Result, receive, send
from localkube.apiserver.cel.escaping import without_text
from localkube.apiserver.cel.functions.authorizer import asking, nobody

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from localkube.apiserver.cel.batches import Batch
    from localkube.apiserver.cel.functions.authorizer import Ask, Question

_LOOP_OR_GROWTH = re.compile(
    r"\+|\b(?:all|exists\w*|map|filter|transform\w+|sort\w*|replace|join|format|flatten|range"
    r"|distinct|equivalent|contains|intersects|findAll)\s*\("
)
_LONGEST = 1000
_LONGEST_ANSWER = 30.0
"""Seconds; an event loop that does not answer by then has ended."""
_WORKER = "localkube.apiserver.cel.worker"


@lru_cache(maxsize=4096)
def _is_bounded(expression: str) -> bool:
    text = without_text(expression)
    return len(expression) <= _LONGEST and not _LOOP_OR_GROWTH.search(text)


def _is_cheap(batch: Batch) -> bool:
    return all(map(_is_bounded, (*batch.expressions, *(text for _, text in batch.variables))))


def _run_here(batch: Batch, ask: Ask) -> list[Result]:
    # Imported with the first rule: a cluster without rules starts without the library.
    from localkube.apiserver.cel import programs

    with asking(ask):
        return programs.run(batch)


class Evaluator:
    """Evaluates batches; starts its process with the first batch that needs one."""

    def __init__(self) -> None:
        self._worker: subprocess.Popen[bytes] | None = None
        # Only this thread talks to the process, with one request at a time. It reads every answer
        # to its end, also if nobody waits for it any more.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="cel")

    async def run(self, batches: Sequence[Batch], ask: Ask = nobody) -> list[list[Result]]:
        """The results of every batch; `ask` answers for an authorizer."""
        apart = [batch for batch in batches if not _is_cheap(batch)]
        answers: Iterator[list[Result]] = iter(())
        if apart:
            loop = asyncio.get_running_loop()
            asked = partial(_ask_on, loop, ask)
            results = await loop.run_in_executor(self._thread, self._run_apart, apart, asked)
            answers = iter(results)
        return [_run_here(batch, ask) if _is_cheap(batch) else next(answers) for batch in batches]

    async def close(self) -> None:
        """End the process."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._end)

    # -- in the thread ---------------------------------------------------------------------------

    def _run_apart(self, batches: list[Batch], ask: Ask) -> list[list[Result]]:
        with ExitStack() as failed:
            # A process that has not sent its results could send them to the next request.
            failed.callback(self._end)
            try:
                results = self._exchange(batches, ask)
            except (EOFError, BrokenPipeError):
                return [[Result(error=TOO_MUCH) for _ in batch.expressions] for batch in batches]
            failed.pop_all()
            return results

    def _exchange(self, batches: list[Batch], ask: Ask) -> list[list[Result]]:
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        send(process.stdin, [tuple(batch) for batch in batches])
        while True:
            kind, content = receive(process.stdout)
            if kind == RESULTS:
                return [[Result(*row) for row in rows] for rows in content]
            send(process.stdin, ask(content))

    def _running(self) -> subprocess.Popen[bytes]:
        if self._worker is None or self._worker.poll() is not None:
            self._end()
            self._worker = subprocess.Popen(
                # -P: a module in the current directory must not replace one of ours.
                [sys.executable, "-P", "-m", _WORKER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        return self._worker

    def _end(self) -> None:
        process, self._worker = self._worker, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:  # a batch that was not read to its end
                    continue


def _ask_on(loop: asyncio.AbstractEventLoop, ask: Ask, question: Question) -> tuple[bool, str]:
    """The answer from the thread of the event loop, which alone reads the roles."""

    async def answer() -> tuple[bool, str]:
        return ask(question)

    return asyncio.run_coroutine_threadsafe(answer(), loop).result(_LONGEST_ANSWER)


EVALUATOR = Evaluator()
"""One for the process: programs and their worker are shared by all kinds."""
