"""The command line of a container."""

from __future__ import annotations

import msgspec
import pytest

from localkube.node.container_lifecycle import command_line
from localkube.node.pod import Container, MissingReference


def line(**fields: object) -> list[str]:
    return command_line(msgspec.convert(fields, Container), {"N": "3"})


def test_command_and_args_are_joined_and_expanded() -> None:
    assert line(command=["train"], args=["--n=$(N)"]) == ["train", "--n=3"]


def test_a_container_on_a_terminal_without_a_command_runs_a_shell() -> None:
    assert line(stdin=True, tty=True) == ["sh"]
    assert line(stdin=True, tty=True, command=["top"]) == ["top"]


def test_args_alone_are_the_whole_command_line() -> None:
    assert line(args=["python", "t.py"]) == ["python", "t.py"]


def test_a_container_without_command_and_args_is_rejected() -> None:
    with pytest.raises(MissingReference, match="command or args"):
        line()


def test_args_that_are_options_of_an_images_program_are_rejected() -> None:
    with pytest.raises(MissingReference, match="no command: args are for the program of an image"):
        line(args=["--model_dir", "/workspace"])
