"""A module of the user's own project, as the tests of pickling see it."""

from __future__ import annotations

import functools
import threading

FACTOR = 7
LOCK = threading.Lock()


def scale(number: int) -> int:
    return number * FACTOR


@functools.cache
def cached_scale(number: int) -> int:
    return scale(number)


def locked(number: int) -> int:
    with LOCK:
        return number


def scale_twice(number: int) -> int:
    return scale(scale(number))


class Model:
    """A class whose instances and methods are sent."""

    def __init__(self, weight: int) -> None:
        self.weight = weight

    @functools.cached_property
    def double(self) -> int:
        return 2 * self.weight

    def predict(self, number: int) -> int:
        return scale(number) + self.weight
