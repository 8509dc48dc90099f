"""Train with chief, workers and parameter servers; keep logs and the model in a bucket.

The program of `tf-job_distributed-template.yaml`, which carries it in a ConfigMap: any image with
Python and numpy can run it. The bucket is the folder $MODELS/$BUCKET of a shared volume; with
S3_ENDPOINT set, the chief also puts the model into the S3 bucket of that name.

    $MODELS/$BUCKET/$JOB_NAME/logs/chief-0.jsonl      one line per reported step
    $MODELS/$BUCKET/$JOB_NAME/export/1/model.npz      the weights; every run exports the next number
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import numpy as np

if not Path(__file__).with_name("numpy_ps.py").exists():
    sys.path.insert(0, str(Path(__file__).parent.parent))  # In a checkout it is one folder up.

import numpy_ps
import s3


def main() -> None:
    config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    task = config.get("task", {"type": "chief", "index": 0})
    if task["type"] == "ps":
        numpy_ps.main()
        return
    folder = Path(os.environ["MODELS"], os.environ["BUCKET"], os.environ["JOB_NAME"])
    cluster = config.get("cluster", {})
    chiefs = len(cluster.get("chief", [])) + len(cluster.get("master", []))
    trainers = max(1, chiefs + len(cluster.get("worker", [])))
    position = task["index"] + (chiefs if task["type"] == "worker" else 0)
    print(f"{task['type']} {task['index']} of {json.dumps(cluster)}", flush=True)
    with Log(folder / "logs" / f"{task['type']}-{task['index']}.jsonl") as log:
        weights = train(log, cluster.get("ps", []), position, trainers)
    if position == 0:
        export(weights, folder / "export")


class Log:
    """Steps and losses, as text on standard output and as JSON lines in a file."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a")

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def report(self, step: int, loss: float) -> None:
        print(f"step {step} loss {loss:.4f}", flush=True)
        row = {"time": time.time(), "step": step, "loss": loss}
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()


def train(log: Log, servers: list[str], position: int, trainers: int) -> np.ndarray:
    """Fit on this trainer's shard and return the weights; fail if the loss did not fall."""
    args = numpy_ps.arguments()
    inputs, targets = numpy_ps.shard(position, trainers)
    links = [numpy_ps.connect(address) for address in servers]
    weights = np.zeros((numpy_ps.FEATURES, numpy_ps.CLASSES))
    losses = [numpy_ps.loss_and_gradient(weights, inputs, targets)[0]]
    for step in range(numpy_ps.join(links, position), args.steps + 1):
        weights = numpy_ps.pull(links, weights)
        loss, gradient = numpy_ps.loss_and_gradient(weights, inputs, targets)
        weights = numpy_ps.push(links, step, weights, args.rate * gradient)
        losses.append(loss)
        if step == 1 or step % args.report == 0 or step == args.steps:
            log.report(step, loss)
        time.sleep(args.pause)
    weights = numpy_ps.pull(links, weights)
    losses.append(numpy_ps.loss_and_gradient(weights, inputs, targets)[0])
    numpy_ps.part_from(links)
    if losses[-1] >= losses[0]:
        sys.exit("the loss did not fall")
    print(f"trained: loss {losses[0]:.4f} -> {losses[-1]:.4f}", flush=True)
    return weights


def export(weights: np.ndarray, folder: Path) -> None:
    """Write the model under the next version number; a rename makes it appear complete."""
    folder.mkdir(parents=True, exist_ok=True)
    versions = [int(path.name) for path in folder.iterdir() if path.name.isdigit()]
    target = folder / str(max(versions, default=0) + 1)
    partial = folder / f".{target.name}.{os.getpid()}"
    partial.mkdir()
    np.savez(partial / "model.npz", weights=weights)
    partial.rename(target)
    print(f"exported {target / 'model.npz'}", flush=True)
    if endpoint := os.environ.get("S3_ENDPOINT"):
        key = f"{os.environ['JOB_NAME']}/{target.name}/model.npz"
        s3.put(endpoint, os.environ["BUCKET"], key, (target / "model.npz").read_bytes())
        print(f"uploaded s3://{os.environ['BUCKET']}/{key}", flush=True)


if __name__ == "__main__":
    main()
