"""Write the training program into the template's ConfigMap; run it after changing the program.

python examples/openshift/embed.py
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
TEMPLATE = HERE / "tf-job_distributed-template.yaml"
PROGRAM = (HERE / "train.py", HERE / "s3.py", HERE.parent / "numpy_ps.py")
BEGIN, END = "  data: # the program, written by embed.py\n", "- apiVersion: kubeflow.org"


def embedded(template: str) -> str:
    """The template with the program as it is now."""
    head, _, rest = template.partition(BEGIN)
    _, _, tail = rest.partition(END)
    blocks = [f"    {path.name}: |\n{_indented(path.read_text())}" for path in PROGRAM]
    return head + BEGIN + "".join(blocks) + END + tail


def _indented(text: str) -> str:
    return "".join(f"      {line}\n" if line else "\n" for line in text.splitlines())


if __name__ == "__main__":
    TEMPLATE.write_text(embedded(TEMPLATE.read_text()))
