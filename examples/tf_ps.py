"""TensorFlow's ParameterServerStrategy: chief, workers and parameter servers.

Every process reads TF_CONFIG. Only the chief runs the program: workers and parameter servers serve
its requests, and a worker that dies and comes back gets steps again. When the chief is done, it
tells every server to exit with 0: the job ends cleanly whatever its cleanPodPolicy. (A worker that
comes back after that is not told, and is left to that policy.)

    arena submit tf --name=ps --image=python:3.12 --gang --chief --workers=2 --ps=1 \\
        "python tf_ps.py --steps 200"
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

# Quiet, and one core per process: a model this small gains nothing from threads or a GPU.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")

import numpy as np
import tensorflow as tf

FEATURES, HIDDEN, CLASSES, ROWS, BATCH = 20, 32, 4, 2000, 100


def main() -> None:
    args = arguments()
    config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    cluster: dict[str, list[str]] = config.get("cluster", {})
    if not all(cluster.get(role) for role in ("chief", "worker", "ps")):
        sys.exit(f"TF_CONFIG must name a chief, workers and parameter servers, not {cluster}")
    task, index = config["task"]["type"], int(config["task"]["index"])
    print(f"{task} {index} of {json.dumps(cluster)}, pid {os.getpid()}", flush=True)
    if task in ("worker", "ps"):
        serve(task, index, cluster[task][index])
    else:
        coordinate(args, cluster)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--steps", type=int, default=200, help="steps of all workers together")
    parser.add_argument("--rate", type=float, default=0.3, help="learning rate")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds to rest after a report")
    parser.add_argument("--report", type=int, default=20, help="print the loss every so many steps")
    parser.add_argument("--logdir", type=Path, help="write TensorBoard event files here")
    parser.add_argument("--export", type=Path, help="write the model here, as a SavedModel")
    return parser.parse_args()


def serve(task: str, index: int, address: str) -> None:
    """Run the operations of the chief until it is done."""
    bell = Path(doorbell(address))
    bell.unlink(missing_ok=True)
    os.mkfifo(bell)
    # TensorFlow's server cannot be stopped: it ends with this process.
    server = tf.distribute.Server(
        tf.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec(),
        job_name=task,
        task_index=index,
    )
    print(f"serving at {server.target}", flush=True)
    bell.read_bytes()
    bell.unlink()
    print("the chief is done", flush=True)


def doorbell(address: str) -> str:
    """The path of a named pipe: the server reads it, and the chief lets TensorFlow write to it."""
    return f"{tempfile.gettempdir()}/tf_ps-{address.replace(':', '-')}"


def dismiss(cluster: dict[str, list[str]]) -> None:
    """Write to every server's pipe, by an operation that runs on the server's device."""
    for role in ("worker", "ps"):
        for index, address in enumerate(cluster[role]):
            try:
                with tf.device(f"/job:{role}/task:{index}/device:CPU:0"):
                    tf.io.write_file(doorbell(address), "done")
            except tf.errors.OpError as error:
                # The training is over; a server that is down now is not needed.
                reason = error.message.partition("\n")[0]
                print(f"{role} {index} could not be told of the end: {reason}", flush=True)


def coordinate(args: argparse.Namespace, cluster: dict[str, list[str]]) -> None:
    """Run the chief: train, export, stop the servers; fail if the loss did not fall."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    with strategy.scope():
        model = Network()
    first, last = train(args, strategy, model)
    if args.export:
        tf.saved_model.save(model, str(args.export))
    dismiss(cluster)
    print(f"trained: loss {first:.4f} -> {last:.4f}", flush=True)
    if not last < first:
        sys.exit("the loss did not fall")


def train(
    args: argparse.Namespace, strategy: tf.distribute.Strategy, model: Network
) -> tuple[float, float]:
    """Give each step to any free worker; returns the loss over all rows before and after."""
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    batches = iter(coordinator.create_per_worker_dataset(dataset))
    writer = tf.summary.create_file_writer(str(args.logdir)) if args.logdir else None

    @tf.function  # type: ignore[untyped-decorator]
    def step(batches: tf.data.Iterator) -> None:
        strategy.run(model.improve, args=(*next(batches), args.rate))

    def measure(done: int) -> float:
        loss = float(model.loss(*samples()))
        print(f"step {done} loss {loss:.4f}", flush=True)
        if writer:
            with writer.as_default(done):
                tf.summary.scalar("loss", loss)
        return loss

    first = last = measure(0)
    for done in range(0, args.steps, args.report):
        more = min(args.report, args.steps - done)
        for _ in range(more):
            coordinator.schedule(step, args=(batches,))
        coordinator.join()
        last = measure(done + more)
        time.sleep(args.pause)
    return first, last


class Network(tf.Module):  # type: ignore[misc]  # TensorFlow carries no types
    """One hidden layer; its variables live on the parameter servers."""

    def __init__(self) -> None:
        super().__init__()
        source = np.random.default_rng(7)
        hidden = source.normal(size=(FEATURES, HIDDEN)) / FEATURES**0.5
        output = source.normal(size=(HIDDEN, CLASSES)) / HIDDEN**0.5
        self.hidden = tf.Variable(hidden, dtype=tf.float32, name="hidden")
        self.shift = tf.Variable(tf.zeros(HIDDEN), name="shift")
        self.output = tf.Variable(output, dtype=tf.float32, name="output")

    @tf.function(input_signature=[tf.TensorSpec((None, FEATURES), tf.float32, name="inputs")])  # type: ignore[untyped-decorator]
    def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
        return tf.tanh(inputs @ self.hidden + self.shift) @ self.output

    def loss(self, inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, self(inputs)))

    def improve(self, inputs: tf.Tensor, labels: tf.Tensor, rate: float) -> None:
        with tf.GradientTape() as tape:
            loss = self.loss(inputs, labels)
        variables = self.trainable_variables
        for variable, slope in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(rate * slope)


def samples() -> tuple[np.ndarray, np.ndarray]:
    """The data set, made from the same seed in every process."""
    source = np.random.default_rng(7)
    truth = source.normal(size=(FEATURES, CLASSES))
    inputs = source.normal(size=(ROWS, FEATURES)).astype(np.float32)
    return inputs, (inputs @ truth).argmax(axis=1)


def dataset() -> tf.data.Dataset:
    """Endless batches, in a different order in each worker: any free worker gets a step."""
    return tf.data.Dataset.from_tensor_slices(samples()).shuffle(ROWS).batch(BATCH).repeat()


if __name__ == "__main__":
    main()
