"""`arena version`."""

from __future__ import annotations

import platform

import click

from muster import __version__


@click.command(name="version")
@click.option("--short", is_flag=True, help="The number alone.")
def command(short: bool) -> None:
    """Print the version."""
    if short:
        print(__version__)
        return
    print(f"arena (muster {__version__})")
    print(f"  Python:   {platform.python_version()}")
    print(f"  Platform: {platform.system().lower()}/{platform.machine()}")
