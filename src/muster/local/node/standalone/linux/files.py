"""Whole small files, read and written in one call.

In place of pathlib, whose loading takes longer than all these programs do with it.
"""

from __future__ import annotations


def read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
