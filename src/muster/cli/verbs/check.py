"""`arena check`: whether the local cluster's database is damaged, and returning to a backup."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from kubekit.errors import MusterError
from muster import local_daemon
from muster.cli import options
from muster.cli.show.messages import note
from muster.cli.show.table import json_or_yaml, table
from muster.client.home import Home

if TYPE_CHECKING:
    from muster.local_daemon import CheckReport

_MAX_SHOWN = 20
_NEWEST = ""
"""`--restore` without a file."""


@click.command(name="check")
@click.option(
    "--data-dir", type=Path, help="The data directory of `up`  [default: that of the last cluster]"
)
@click.option(
    "--restore",
    is_flag=False,
    flag_value=_NEWEST,
    metavar="[FILE]",
    help="Use the objects of a backup from now on  [default: of the newest good one]",
)
@options.output_option("wide", "json", "yaml")
def command(data_dir: Path | None, restore: str | None, output: str) -> None:
    """Look for damage in the database of the local cluster.

    Exit code 1 if there is damage. --restore returns to a backup: objects made since then are
    gone, and the files that were in use are moved to a folder. It needs the cluster to be down.

    \b
    Examples:
      arena check
      arena check --restore
      arena check --restore ~/.muster/data/backups/objects-20260101T000000Z.db
    """
    home = Home.of_user()
    data = (data_dir or home.stored_data() or home.data).absolute()
    if restore is not None:
        chosen = None if restore == _NEWEST else Path(restore)
        backup, folder = local_daemon.restore_database(data, chosen)
        note(f"the cluster has the objects of {backup}; the former files are in {folder}")
        return
    report = local_daemon.check_database(data)
    if output != "wide":
        print(json_or_yaml(msgspec.to_builtins(report), output))
    else:
        _print(report)
    if report.damaged:
        raise MusterError("the database is damaged", hint=_next_step(report, data))


def _print(report: CheckReport) -> None:
    unreadable = list(report.unreadable)
    more = len(unreadable) - _MAX_SHOWN
    if more > 0:
        unreadable[_MAX_SHOWN:] = [f"… and {more} more"]
    rows = [
        ("database:", [report.database]),
        ("state:", ["damaged" if report.damaged else "ok"]),
        ("problems:", report.problems),
        ("objects:", [f"{report.objects} can be read"]),
        ("unreadable:", unreadable),
        ("backups:", report.backups or ["none yet"]),
    ]
    lines = ((name, number, line) for name, lines in rows for number, line in enumerate(lines))
    print(table((name if not number else "", line) for name, number, line in lines))


def _next_step(report: CheckReport, data: Path) -> str:
    if not report.backups:
        return "There is no backup; `arena up --data-dir DIR` starts an empty cluster."
    restore = f"`arena check --data-dir {data} --restore` returns to the newest good backup"
    return f"{'`arena down`, then ' if report.running else ''}{restore}."
