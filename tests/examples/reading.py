"""Reads the files of a training run with TensorBoard and TensorFlow; run by the training Python.

One question per line on standard input, one answer per line on standard output, both JSON:
{"logdir": FOLDER} -> [[step, loss], …] as TensorBoard reads them;
{"model": FOLDER, "inputs": [[…], …]} -> the SavedModel's outputs for them, as TensorFlow serves it.
One process answers all questions, because importing TensorFlow takes longer than any answer.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")


def scalars(logdir: str, tag: str = "loss") -> list[tuple[int, float]]:
    # TensorBoard's own loader turns both ways of writing a scalar, old and new, into a tensor.
    loader = import_module("tensorboard.backend.event_processing.event_file_loader")
    make_ndarray = import_module("tensorboard.util.tensor_util").make_ndarray
    return [
        (event.step, make_ndarray(value.tensor).item())
        for path in sorted(Path(logdir).iterdir())
        for event in loader.EventFileLoader(str(path)).Load()
        for value in event.summary.value
        if value.tag == tag
    ]


def outputs(model: str, inputs: list[list[float]]) -> Any:
    tf = import_module("tensorflow")
    serve = tf.saved_model.load(model).signatures["serving_default"]
    (scores,) = serve(inputs=tf.constant(inputs, tf.float32)).values()
    return scores.numpy().tolist()


if __name__ == "__main__":
    for line in sys.stdin:
        question = json.loads(line)
        answer = outputs(**question) if "model" in question else scalars(**question)
        print(json.dumps(answer), flush=True)
