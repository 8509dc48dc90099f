"""Runs in a pod: writes the folder of a model version to standard output, as a tar archive.

Kept apart because its text is sent to the pod, and runs in a process there. Standard library only,
and no syntax newer than Python 3.7: it runs with the Python of the job.
"""

from __future__ import annotations

import os
import sys
import tarfile


def main(folder: str) -> None:
    name = os.path.basename(folder.rstrip("/")) or "model"
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as archive:
        for path, folders, files in os.walk(folder):
            folders.sort()
            for file in sorted(files):
                full = os.path.join(path, file)
                # No links, devices or FIFOs: only the files of the model.
                if os.path.isfile(full) and not os.path.islink(full):
                    inside = os.path.relpath(full, folder)
                    archive.add(full, arcname=os.path.join(name, inside), recursive=False)


if __name__ == "__main__":
    if not os.path.isdir(sys.argv[1]):
        sys.exit(f"{sys.argv[1]} is not there any more")
    main(sys.argv[1])
