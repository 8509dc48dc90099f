"""A process that can open nothing, or little, for tests of a lack of descriptors."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limit[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)


@contextmanager
def room_for(count: int) -> Iterator[int]:
    """A limit at which the node may open so many more descriptors; yields the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    share = len(os.listdir("/proc/self/fd")) - 1 + count
    limit = next(n for n in range(1 << 16) if n - n * 3 // 8 >= share)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield limit
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
