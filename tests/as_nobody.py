"""The process that becomes nobody: `python -m tests.as_nobody USER PLACE FOLDER… -- PROGRAM…`.

USER is the number of nobody, who may not enter the directories in which the folders lie, as
below a home directory of mode 700, nor a folder that has this mode itself. So the folders are
mounted below PLACE, by their numbers, in a mount namespace that ends with the program.
"""

from __future__ import annotations

import os
import sys

from localkube.node.standalone.linux import kernel


def main(user: str, place: str, *words: str) -> None:
    end = words.index("--")
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", place, "tmpfs", data="mode=755")
    for number, folder in enumerate(words[:end]):
        show(folder, f"{place}/{number}")
    os.setgroups([])
    os.setgid(int(user))
    os.setuid(int(user))
    os.chdir(os.environ["PWD"])
    os.execv(words[end + 1], words[end + 1 :])


def show(folder: str, target: str) -> None:
    """Mount the folder, or what is in it if its own mode lets nobody in."""
    os.mkdir(target, 0o755)
    if os.stat(folder).st_mode & 0o005 == 0o005:
        kernel.mount(folder, target, flags=kernel.MS_REC | kernel.MS_BIND)
        return
    for entry in os.scandir(folder):
        path = f"{target}/{entry.name}"
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), path)
        elif entry.is_dir():
            show(entry.path, path)
        else:
            os.mknod(path)
            kernel.mount(entry.path, path, flags=kernel.MS_BIND)


if __name__ == "__main__":
    main(*sys.argv[1:])
