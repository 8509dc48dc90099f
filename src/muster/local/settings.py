"""The options of `arena up`, and what they mean for the node and the dashboard."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from muster.local.data_directory import claimed
from muster.local.node import agent as node
from muster.local.node.machine.capacity import declare_nodes

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from muster.local.home import Home
    from muster.local.node.machine.capacity import NodeSpec


@dataclass(frozen=True)
class Settings:
    """The options of `arena up`."""

    home: Home
    nodes: int = 1
    gpus_per_node: int | None = None
    cpus_per_node: int | None = None
    memory_per_node: str | None = None
    data_dir: Path | None = None
    port: int | None = None
    python: str | None = None
    runtime: str = "auto"
    isolated: bool = False
    """Whether submitted jobs get private directories; `arena submit` reads it in the status."""
    dashboard: bool = True
    dashboard_port: int | None = None

    @property
    def data(self) -> Path:
        return (self.data_dir or self.home.data).absolute()

    def held(self) -> AbstractContextManager[None]:
        """Hold the home and the data directory, before anything is read, made or removed.

        From now on all files of this process, and of those that it starts, are private; programs of
        pods get the usual umask again (`spawn`).
        """
        os.umask(0o077)
        return self.home.held(claimed(self.data, self.home.root))

    def node_specs(self) -> list[NodeSpec]:
        return declare_nodes(
            self.nodes,
            cpus_each=str(self.cpus_per_node) if self.cpus_per_node else None,
            memory_each=self.memory_per_node,
            gpus_each=self.gpus_per_node,
        )

    def for_node(self) -> node.Settings:
        return node.Settings(
            self.data,
            self.node_specs(),
            python=self.python,
            images=self.home.images,
            visible=self._visible_directories(),
            runtime=self.runtime,
        )

    def job_directory(self) -> str:
        """The directory of jobs that are submitted in the dashboard, unless they name another."""
        return next(iter(self._visible_directories()), str(Path.home()))

    def _visible_directories(self) -> tuple[str, ...]:
        """The directory where `up` was called, unless it is part of the cluster's state."""
        try:
            current = Path.cwd()
        except FileNotFoundError:  # it was deleted
            return ()
        state = (self.home.root.resolve(), self.data.resolve())
        return () if any(current.is_relative_to(folder) for folder in state) else (str(current),)
