"""Real notebooks in a real kernel: tables and curves that change, and the kernel's interrupt."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import muster

EXECUTE = """
import sys
import nbformat
from nbclient import NotebookClient

notebook = nbformat.v4.new_notebook()
notebook.cells = [nbformat.v4.new_code_cell(text) for text in sys.argv[2:]]
NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[1])
"""
INTERRUPT = """
import json, sys
from jupyter_client.manager import start_new_kernel

manager, client = start_new_kernel(kernel_name="python3")
try:
    client.execute(sys.argv[1])
    messages = []
    while True:
        message = client.get_iopub_msg(timeout=60)
        messages.append(message["msg_type"])
        # The program prints a line once the job runs; a display before it belongs to the wait.
        if message["msg_type"] == "display_data" and "stream" in messages:
            manager.interrupt_kernel()
        if message["msg_type"] == "error":
            error = message["content"]["ename"]
        if message["content"].get("execution_state") == "idle" and "error" in messages:
            break
    reply = client.execute_interactive(
        "", user_expressions={"status": "job.status()"}, timeout=60, store_history=False
    )
    status = reply["content"]["user_expressions"]["status"]["data"]["text/plain"]
finally:
    client.stop_channels()
    manager.shutdown_kernel(now=True)
print(json.dumps([error, status]))
"""


def run(program: str, cluster: muster.LocalCluster, *words: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", program, *words],
        env={**os.environ, **cluster.environment},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def execute(cluster: muster.LocalCluster, file: Path, *cells: str) -> list[list[dict[str, Any]]]:
    run(EXECUTE, cluster, str(file), *cells)
    notebook = json.loads(file.read_text())
    return [cell["outputs"] for cell in notebook["cells"]]


def html(output: dict[str, Any]) -> str:
    text = output["data"]["text/html"]
    return text if isinstance(text, str) else "".join(text)


def test_a_table_follows_the_job_and_curves_are_drawn(
    cluster: muster.LocalCluster, namespace: str, tmp_path: Path
) -> None:
    training = "for i in 1 2 3; do echo step=$i loss=0.$i; sleep 0.3; done"
    submit, wait, curves, plain = execute(
        cluster,
        tmp_path / "a.ipynb",
        f'import muster\njob = muster.submit("tf", {training!r}, name="a", namespace={namespace!r})'
        "\njob",
        "job.wait(timeout='1m')",
        "job.curves('loss', follow=True)",
        "print(job.curves())",
    )

    assert [output["output_type"] for output in wait] == ["display_data"]
    assert "tfjob/a" in html(submit[0])
    assert "SUCCEEDED" in html(wait[0])
    assert "SUCCEEDED" in "".join(wait[0]["data"]["text/plain"])
    assert [html(output).count("<svg") for output in curves] == [1]
    assert plain[0]["text"] in (["loss: 0.1 → 0.3 (3 points)\n"], "loss: 0.1 → 0.3 (3 points)\n")


def test_a_job_at_the_end_of_a_cell_is_shown_and_updated_by_itself(
    cluster: muster.LocalCluster, namespace: str, tmp_path: Path
) -> None:
    shown, _, gone = execute(
        cluster,
        tmp_path / "b.ipynb",
        f'import muster\njob = muster.submit("tf", "sleep 1", name="b", namespace={namespace!r})'
        "\njob",
        "import threading\n"
        "while [t for t in threading.enumerate() if t.name.startswith('muster-')]:\n"
        "    [t.join() for t in threading.enumerate() if t.name.startswith('muster-')]",
        "job.delete()\njob.wait(until='deleted')\njob",
    )

    assert [output["output_type"] for output in shown] == ["display_data"]
    assert "SUCCEEDED" in html(shown[0])
    assert [output["output_type"] for output in gone] == ["stream"]
    assert f"in {namespace} SUCCEEDED>: the job b was deleted" in "".join(gone[0]["text"])


@pytest.mark.parametrize("call", ["job.wait()", "job.curves(follow=True)"])
def test_the_kernels_interrupt_ends_the_watching_and_not_the_job(
    cluster: muster.LocalCluster, namespace: str, call: str
) -> None:
    output = run(
        INTERRUPT,
        cluster,
        "import muster\n"
        'command = "for i in 1 2 3; do echo loss=$i; sleep 0.6; done; sleep 300"\n'
        f'job = muster.submit("tf", command, name="c", namespace={namespace!r})\n'
        f"job.wait(until='running')\nprint('runs', flush=True)\n{call}",
    )

    error, status = json.loads(output.splitlines()[-1])
    assert error == "KeyboardInterrupt"
    assert status == "'RUNNING'"
