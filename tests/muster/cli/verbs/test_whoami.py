"""`arena whoami`."""

from __future__ import annotations

import hashlib
import json

from tests.muster.cli.place import Place


def test_whoami_is_one_line_of_json(place: Place) -> None:
    _, out, _ = place.arena("whoami")

    answer = json.loads(out)
    assert len(out.splitlines()) == 1
    assert list(answer) == ["Name", "Id", "IsAdminUser"]
    assert answer["IsAdminUser"] is True
    assert answer["Id"] == hashlib.md5(answer["Name"].encode()).hexdigest()
