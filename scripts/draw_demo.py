"""Write `docs/demo.svg`: the real output of `make demo` as an animated picture of a terminal.

    python -m scripts.draw_demo

The demo runs in a pseudo-terminal, and every line is recorded with its time and its colours. All
lines stand below each other in one group. Two animations in steps make a terminal of it: a curtain
moves down with the last line that is printed, and the group moves up once the screen is full. Long
pauses are shortened. Where animations are off, the picture shows the end. It uses no script and no
other file.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
import time
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.absolute()
PICTURE = ROOT / "docs" / "demo.svg"
COLUMNS, ROWS = 124, 32
WIDTH, HEIGHT, MARGIN = 7.8, 18, 16
LONGEST_PAUSE, PER_LINE, PER_COMMAND, END = 1.5, 0.04, 0.8, 5.0
_ESCAPE = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])|\x1b[()][A-Z0-9]")
_STYLE = """
text { font: 13px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #d7dae0 }
text { white-space: pre }
.c1 { font-weight: bold } .c2 { fill: #8b949e } .c31, .c91 { fill: #ff7b72 }
.c32, .c92 { fill: #7ee787 } .c33, .c93 { fill: #e3b341 } .c34, .c94 { fill: #79c0ff }
.c35, .c95 { fill: #d2a8ff } .c36, .c96 { fill: #76e3ea } .c90 { fill: #8b949e }
"""


class Line(NamedTuple):
    """A line of the terminal and the second when it was printed."""

    time: float
    parts: tuple[tuple[str, str], ...]
    """Text and the classes of its colours."""

    @property
    def length(self) -> int:
        return sum(len(text) for text, _ in self.parts)


def main() -> None:
    PICTURE.write_text(picture(shortened(recorded(["make", "--no-print-directory", "demo"]))))


def recorded(command: list[str]) -> list[Line]:
    """The lines that a command prints in a terminal of this size."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ |= {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    began, partial, lines = time.monotonic(), "", [prompt(command)]
    while chunk := _read(terminal):
        partial += chunk.replace(str(ROOT), "~/muster")
        *whole, partial = partial.split("\n")
        lines += [line for text in whole for line in wrapped(time.monotonic() - began, text)]
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        sys.exit(f"{' '.join(command)} failed")
    return lines


def _read(terminal: int) -> str:
    try:
        return os.read(terminal, 65536).decode(errors="replace")
    except OSError:  # the command has ended
        return ""


def prompt(command: list[str]) -> Line:
    words = [word for word in command if not word.startswith("-")]
    return Line(0.0, (("$ ", "c32"), (" ".join(words), "c1")))


def wrapped(when: float, text: str) -> list[Line]:
    """A printed line as rows of the terminal; of what a progress line was, its last text."""
    text = text.rstrip("\r").rpartition("\r")[2]
    rows: list[list[tuple[str, str]]] = [[]]
    colours, place = "", 0
    for match in [*_ESCAPE.finditer(text), None]:
        end = match.start() if match else len(text)
        rest = text[place:end].expandtabs()
        while rest:
            room = COLUMNS - sum(len(part) for part, _ in rows[-1])
            if not room:
                rows.append([])
                continue
            rows[-1].append((rest[:room], colours))
            rest = rest[room:]
        if match:
            place = match.end()
            colours = _colours(colours, match)
    return [Line(when, tuple(row)) for row in rows]


def _colours(current: str, match: re.Match[str]) -> str:
    if match[2] != "m":
        return current
    numbers = [number for number in (match[1] or "0").split(";") if number]
    chosen = [] if "0" in numbers else current.split()
    return " ".join([*chosen, *(f"c{number}" for number in numbers if number != "0")])


def shortened(lines: list[Line]) -> list[Line]:
    """The lines at a speed at which a person can read the commands."""
    now, last, result = -PER_COMMAND, 0.0, []  # the first command is there from the beginning
    for line in lines:
        is_command = "".join(text for text, _ in line.parts).startswith("$ ")
        now += min(line.time - last, LONGEST_PAUSE) + (PER_COMMAND if is_command else PER_LINE)
        last = line.time
        result.append(line._replace(time=now))
    return result


def picture(lines: list[Line]) -> str:
    total = lines[-1].time + END
    width, height = COLUMNS * WIDTH + 2 * MARGIN, ROWS * HEIGHT + 2 * MARGIN + 24
    steps = {0.0: 0} | {line.time: number for number, line in enumerate(lines, 1)}
    curtain = _keyframes("curtain", {t: n * HEIGHT for t, n in steps.items()}, total)
    scroll = _keyframes("scroll", {t: -max(n - ROWS, 0) * HEIGHT for t, n in steps.items()}, total)
    animated = f"{total:.1f}s step-end infinite"
    style = (
        f"{_STYLE}{curtain}{scroll}"
        f"#all {{ transform: translateY({-max(len(lines) - ROWS, 0) * HEIGHT}px) }}\n"
        f"#curtain {{ transform: translateY({len(lines) * HEIGHT}px) }}\n"
        "@media (prefers-reduced-motion: no-preference) {\n"
        f"#all {{ animation: scroll {animated} }}\n"
        f"#curtain {{ animation: curtain {animated} }}\n}}\n"
    )
    dots = "".join(
        f'<circle cx="{MARGIN + 6 + 18 * number}" cy="18" r="6" fill="{colour}"/>'
        for number, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    rows = "\n".join(_row(number, line) for number, line in enumerate(lines) if line.parts)
    tall = len(lines) * HEIGHT
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}"'
        f' width="{width:.0f}" height="{height}" role="img">\n'
        "<title>make demo in a terminal</title>\n"
        f"<style>{style}</style>\n"
        f'<rect width="100%" height="100%" rx="8" fill="#161b22" stroke="#30363d"/>{dots}\n'
        f'<svg x="{MARGIN}" y="{MARGIN + 24}" width="{COLUMNS * WIDTH:.0f}"'
        f' height="{ROWS * HEIGHT}" overflow="hidden"><g id="all">\n{rows}\n'
        f'<rect id="curtain" width="100%" height="{tall + ROWS * HEIGHT}" fill="#161b22"/>\n'
        "</g></svg></svg>\n"
    )


def _keyframes(name: str, places: dict[float, int], total: float) -> str:
    """One frame for every change; lines of the same moment share one."""
    frames, last = [], None
    for when, place in {round(100 * t / total, 2): place for t, place in places.items()}.items():
        if place != last:
            frames.append(f"{when:g}% {{ transform: translateY({place}px) }}")
            last = place
    return f"@keyframes {name} {{ {' '.join(frames)} }}\n"


def _row(number: int, line: Line) -> str:
    parts = "".join(
        f'<tspan class="{colours}">{escape(text)}</tspan>' if colours else escape(text)
        for text, colours in line.parts
    )
    # The length makes columns line up in every font.
    size = f'textLength="{line.length * WIDTH:.1f}" lengthAdjust="spacingAndGlyphs"'
    return f'<text y="{number * HEIGHT + 14}" {size}>{parts}</text>'


if __name__ == "__main__":
    main()
