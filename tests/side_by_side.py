"""Doing the same on two clusters at the same time, because such tests mostly wait."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(work: Callable[[T], R], first: T, second: T) -> tuple[R, R]:
    """Both results, in order; the first failure is raised once both have ended."""
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.submit(work, first), pool.submit(work, second)
    return one.result(), other.result()
