"""YAML that once ended or stalled the process, and a process of its own to read it in."""

from __future__ import annotations

import resource
import subprocess
import sys

_DEEP = 50_000

ATTACKS = {
    **{
        f"deep {part!r}": part * _DEEP
        for part in (
            "[",
            "{",
            "- ",
            "? ",
            "[{",
            "[a: ",
            "{a: ",
            "{? ",
            "- ? ",
            "[\n",
            "[!a ",
            "{? [",
            "!!seq [",
        )
    },
    "deep and closed": "[" * _DEEP + "]" * _DEEP,
    "deep anchors": "".join(f"&a{number} [" for number in range(_DEEP)),
    "deep indentation": "".join(" " * number + "a:\n" for number in range(1400)),
    "deep in the second document": "a\n---\n" + "[" * _DEEP,
    "deep after a byte order mark": "\ufeff" + "[" * _DEEP,
    "deep in a key": "? " + "[" * _DEEP,
    "deep under a merge key": "<<: {" * _DEEP,
    "deep by aliases": "- &a0 []\n" + "".join(f"- &a{i + 1} [*a{i}]\n" for i in range(5000)),
    "laughs": "- &a0 []\n" + "".join(f"- &a{i + 1} [{f'*a{i},' * 9}]\n" for i in range(40)),
    "laughs of merge keys": "- &a0 {k: 1}\n"
    + "".join(f"- &a{i + 1} {{<<: [*a{i}, *a{i}]}}\n" for i in range(60)),
    "contains itself": "&a [*a]",
    "contains itself as a key": "&a {? *a : 1}",
    "merges itself": "&a {<<: *a}",
    "flat list": "[" + "a," * 500_000 + "]",
    "flat mapping": "".join(f"a{number}: 1\n" for number in range(100_000)),
    "empty documents": "---\n" * 250_000,
    "digits of base 60": "a: 1" + ":1" * 500_000,
    "tagged digits of base 60": "a: !!int '1" + ":1" * 500_000 + "'",
    "fraction of base 60": "a: 1" + ":1" * 500_000 + ".5",
    "overflow": "a: 1" + ":1" * 400 + ".5",
    "digits": "a: " + "1" * 500_000,
    "tag lines": "".join(f"%TAG !{number}! a\n" for number in range(60_000)) + "--- a",
    "large": "a" * (2 << 20),
}
"""Texts that no limit for strangers' text allows."""

_READ = """
import sys
from kubekit.objects import yaml_reader
try:
    yaml_reader.load_all(sys.stdin.buffer.read(), limits=yaml_reader.STRANGERS_TEXT)
except yaml_reader.YamlError as error:
    print(error)
"""


def read_apart(text: bytes, program: str = _READ) -> str:
    """What a program prints that gets the text on its input; the process must end well and soon."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=text,
        capture_output=True,
        check=False,
        preexec_fn=_limit,
    )
    assert done.returncode == 0, (done.returncode, done.stderr.decode()[-2000:])
    return done.stdout.decode()


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (5, 5))  # of the processor, not of the clock
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
