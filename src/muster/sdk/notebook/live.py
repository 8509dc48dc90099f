"""Outputs of a notebook that change while a call runs; elsewhere nothing is shown.

IPython is imported only where it is loaded already: in the kernel of a notebook.
"""

from __future__ import annotations

import sys
from typing import Any, Protocol


class Shown(Protocol):
    """A value with a view for notebooks."""

    def _repr_html_(self) -> str: ...


def _shell() -> Any:
    """The shell of the kernel; None if this program is not a kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell if getattr(shell, "kernel", None) is not None else None


_cells: dict[str, int] = {}
"""The number of the cell that shows a subject, by the name of the subject."""


class LiveOutput:
    """One output, shown with its first value and replaced by each later one that differs."""

    def __init__(self, subject: str = "") -> None:
        self._shell, self._subject = _shell(), subject
        self._handle: Any = None
        self._html = ""

    @property
    def enabled(self) -> bool:
        """Whether anything is shown."""
        return self._shell is not None

    @property
    def is_repeated(self) -> bool:
        """Whether the cell that runs shows the subject already."""
        return self.enabled and _cells.get(self._subject) == self._shell.execution_count

    def show(self, value: Shown) -> None:
        """Show the value, or replace the one that is shown."""
        if not self.enabled or (html := value._repr_html_()) == self._html:
            return
        self._html = html
        # Not the value itself: its own display may call this.
        data = {"text/html": html, "text/plain": repr(value)}
        if self._handle is not None:
            self._handle.update(data, raw=True)
            return
        from IPython.display import display

        if self._subject:
            _cells[self._subject] = self._shell.execution_count
        self._handle = display(data, raw=True, display_id=True)  # type: ignore[no-untyped-call]
