"""`arena whoami`."""

from __future__ import annotations

import hashlib
import json

from tests.cli.place import Place


def test_whoami_is_one_line_of_json(place: Place) -> None:
    _, out, _ = place.arena("whoami")

    told = json.loads(out)
    assert len(out.splitlines()) == 1
    assert list(told) == ["Name", "Id", "IsAdminUser"]
    assert told["IsAdminUser"] is True
    assert told["Id"] == hashlib.md5(told["Name"].encode()).hexdigest()
