"""`arena whoami`: the user name on the cluster, in arena's one line of JSON."""

from __future__ import annotations

import hashlib
import json

import click

from muster.cli import options
from muster.client.target import Target, may_do_everything, user_name


@click.command(name="whoami")
@options.cluster_options
def command(target: Target) -> None:
    """Print your user name on the cluster, and whether you may do everything there."""
    with target.cluster().connect() as client:
        name = user_name(client)
        admin = may_do_everything(client)
    identity = hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()
    print(json.dumps({"Name": name, "Id": identity, "IsAdminUser": admin}, separators=(",", ":")))
