"""`arena version`."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import click

import muster
from muster import __version__


@click.command(name="version")
@click.option("--short", is_flag=True, help="The number alone.")
@click.option("--verbose", "-v", is_flag=True, help="Show where it is installed too.")
def command(short: bool, verbose: bool) -> None:
    """Print the version."""
    if short:
        print(__version__)
        return
    print(f"arena (muster {__version__})")
    print(f"  Python:   {platform.python_version()}")
    print(f"  Platform: {platform.system().lower()}/{platform.machine()}")
    if verbose:
        print(f"  Program:  {sys.executable}")
        print(f"  Package:  {Path(muster.__file__).parent}")
