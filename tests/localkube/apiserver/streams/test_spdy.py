"""SPDY frames in one byte stream."""

from __future__ import annotations

import struct

from localkube.apiserver.streams.spdy import Data, Ended, Opened, Reply, Reset
from tests.localkube.port_forward_client import ClientMux


def test_frames_may_be_cut_anywhere() -> None:
    mux = ClientMux()
    reset = struct.pack(">IIII", 0x80030003, 8, 1, 5)
    ours = struct.pack(">III", 0x80030006, 4, 1)
    theirs = struct.pack(">III", 0x80030006, 4, 2)
    settings = struct.pack(">III", 0x80030004, 4, 0)
    opened = struct.pack(">III", 0x80030002, 4, 1)
    wire = opened + mux.data(1, b"abc", last=True) + settings + ours + theirs + reset
    wire += mux.data(3, b"")
    events = [event for byte in wire for event in mux.feed(bytes([byte]))]
    assert events == [
        Opened(1),
        Data(1, b"abc", True),
        Reply(theirs),
        Reset(1),
        Data(3, b"", False),
    ]
    assert mux.feed(struct.pack(">IIII", 0x80030007, 8, 1, 0)) == [Ended()]
