"""Names that a manifest for the local cluster uses, and that its node knows.

The node runs pods on this machine's files: a manifest can name its directories and programs.

Kept apart because the process of the local cluster reads it without the modules that build jobs.
"""

from __future__ import annotations

IMAGE = "localhost/this-machine"
"""The image of a job without one: the files and programs of this machine. There is no registry of
this name, so no other cluster can pull it by mistake."""
FOLDER = "/run/muster"
"""In every pod: programs of Muster."""
PROGRAMS = f"{FOLDER}/bin"
"""A directory in every pod with `python` and `python3`, which run the interpreter of PYTHON."""
LAST_PROGRAMS = f"{FOLDER}/last"
"""A directory in every pod with the `tensorboard` of Muster, for the end of PATH."""
PYTHON = "MUSTER_PYTHON"
"""The variable with the interpreter; without it, the interpreter of `arena up` is used."""
PRIVATE_DIRECTORIES = ("/tmp", "/run", "/var/tmp")
"""Directories of which every pod has its own, and does not see this machine's."""
