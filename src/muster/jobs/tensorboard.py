"""What a job's TensorBoard is called and where it listens, for whoever makes or looks for it."""

from __future__ import annotations

PORT = 6006
ROLE = {"role": "tensorboard"}
"""The label of TensorBoard's objects, besides `release`, which is the job's name."""


def name(job: str) -> str:
    """What the Deployment and the Service of a job's TensorBoard are called."""
    return f"{job}-tensorboard"
