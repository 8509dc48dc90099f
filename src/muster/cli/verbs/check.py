"""`arena check`: whether the local cluster's database is damaged, and what can be saved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from kubekit.errors import DamagedStore
from muster import local_daemon
from muster.cli import options
from muster.cli.show.messages import note
from muster.cli.show.table import json_or_yaml, table
from muster.client.home import Home

if TYPE_CHECKING:
    from muster.local_daemon import CheckReport

_MAX_SHOWN = 20


@click.command(name="check")
@click.option(
    "--data-dir", type=Path, help="The data directory of `up`  [default: that of the last cluster]"
)
@click.option("--repair", is_flag=True, help="Write everything that can be saved to a copy.")
@click.option(
    "--restore",
    type=Path,
    metavar="FILE",
    help="Use the objects of a repaired copy or a backup from now on.",
)
@options.output_option("wide", "json", "yaml")
def command(data_dir: Path | None, repair: bool, restore: Path | None, output: str) -> None:
    """Look for damage in the database of the local cluster.

    Exit code 1 if there is damage. Nothing is changed: --repair writes a copy, and --restore moves
    the files that were in use to a folder of their own. Both need the cluster to be down.

    \b
    Examples:
      arena check
      arena check --repair
      arena check --restore ~/.muster/data/backups/objects-20260101T000000Z.db
    """
    home = Home.of_user()
    data = (data_dir or home.stored_data() or home.data).absolute()
    if restore is not None:
        folder = local_daemon.restore_database(data, restore)
        note(f"the cluster has the objects of {restore}; the files before are in {folder}")
        return
    if repair:
        copy = local_daemon.repair_database(data)
        note(f"repaired copy: {copy}")
        note(f"`arena check --data-dir {data} --restore {copy}` puts it in place")
        return
    report = local_daemon.check_database(data)
    if output != "wide":
        print(json_or_yaml(msgspec.to_builtins(report), output))
    else:
        _print(report)
    if report.damaged:
        raise DamagedStore("the database is damaged", hint=_next_step(report, data))


def _print(report: CheckReport) -> None:
    count = f"{report.objects} can be {'saved' if report.damaged else 'read'}"
    if report.damaged and report.running:
        count = "`arena down` first: a check then says what can be saved"
    unreadable = [
        f"{key} (an older state can be saved)" if key in report.older_saved else key
        for key in report.unreadable
    ]
    more = len(unreadable) - _MAX_SHOWN
    if more > 0:
        unreadable[_MAX_SHOWN:] = [f"… and {more} more"]
    rows = [
        ("database:", [report.database]),
        ("state:", ["damaged" if report.damaged else "ok"]),
        ("problems:", report.problems),
        ("objects:", [count]),
        ("unreadable:", unreadable),
        ("backups:", report.backups or ["none yet"]),
    ]
    print(
        table(
            [(name if not n else "", line) for name, lines in rows for n, line in enumerate(lines)]
        )
    )


def _next_step(report: CheckReport, data: Path) -> str:
    if report.running:
        return "`arena down`, then `arena check --repair`."
    steps = [f"`arena check --data-dir {data} --repair` writes all that can be saved to a copy."]
    if report.backups:
        newest = report.backups[0]
        steps.append(f"`arena check --data-dir {data} --restore {newest}` returns to a backup.")
    return "\n".join(steps)
