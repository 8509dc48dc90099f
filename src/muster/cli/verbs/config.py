"""`arena config`: read and write arena's config file."""

from __future__ import annotations

import click

from kubekit.errors import UsageError, no_such
from kubekit.request_errors import NotFound
from muster.cli.show.messages import note
from muster.cli.show.table import table
from muster.cli.verb_groups import AliasGroup
from muster.client import config_file


@click.group(name="config", cls=AliasGroup, aliases={"ls": "list"})
def command() -> None:
    """Read and write arena's config file ($ARENA_CONFIG, or ~/.arena/config).

    \b
    Examples:
      arena config set gang true
      arena config list
    """


@command.command(name="set")
@click.argument("key")
@click.argument("value")
def set_(key: str, value: str) -> None:
    """Set a key to a value."""
    _check_key(key)
    if key == "gang" and config_file.parse_bool(value) is None:
        raise UsageError(f"gang={value}: write true or false")
    if key == "namespace":
        from muster.client.manifests.reader import check_name

        check_name({"apiVersion": "v1", "kind": "Namespace"}, value, f"namespace={value}")
    config_file.write(key, value)
    note(f"{config_file.path()}: {key}={value}")


@command.command(name="unset")
@click.argument("key")
def unset(key: str) -> None:
    """Remove a key."""
    _check_key(key)
    config_file.write(key, None)
    note(f"{config_file.path()}: {key} is not set")


@command.command(name="get")
@click.argument("key")
def get(key: str) -> None:
    """Print the value of a key."""
    values = config_file.read()
    if key not in values:
        _check_key(key)
        raise NotFound(
            f"{key} is not set in {config_file.path()}",
            hint=f"`arena config set {key} VALUE` sets it.",
        )
    print(values[key])


@command.command(name="list")
def list_() -> None:
    """Print every known key, its value and its meaning."""
    values = config_file.read()
    meanings = config_file.KNOWN | {
        key: "not read by any verb" for key in values if key not in config_file.KNOWN
    }
    rows = [(key, values.get(key, ""), meaning) for key, meaning in meanings.items()]
    print(table([("KEY", "VALUE", "MEANING"), *rows]))


def _check_key(key: str) -> None:
    if key not in config_file.KNOWN:
        raise UsageError(
            no_such("key", key, config_file.KNOWN),
            hint=f"Keys: {', '.join(config_file.KNOWN)}.",
        )
