"""The process that evaluates expressions whose cost is not known before.

It reads batches from standard input and writes their results to standard output. All batches of a
request have two seconds of processor time: the kernel ends the process when it is used up, whatever
the library is doing. Memory has a limit too. The server then starts another process.
"""

from __future__ import annotations

import resource
import signal
import sys
from typing import Any

from localkube.apiserver.cel import programs
from localkube.apiserver.cel.batches import QUESTION, RESULTS, Batch, receive, send
from localkube.apiserver.cel.functions.authorizer import asking

SECONDS = 2.0
"""Processor time for all expressions of one request."""
MEMORY = 1 << 30
"""Address space of the process, in bytes."""


def main() -> None:
    """Answer batches until standard input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    inward, outward = sys.stdin.buffer, sys.stdout.buffer

    def ask(question: dict[str, str]) -> Any:
        send(outward, (QUESTION, question))
        return receive(inward)

    with asking(ask):
        while True:
            try:
                batches = [Batch(*row) for row in receive(inward)]
            except EOFError:
                return
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            results = [[tuple(row) for row in programs.run(batch)] for batch in batches]
            signal.setitimer(signal.ITIMER_PROF, 0)
            send(outward, (RESULTS, results))


if __name__ == "__main__":
    main()
