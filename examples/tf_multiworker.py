"""TensorFlow's MultiWorkerMirroredStrategy: every worker trains on its rows, and all step together.

Every process reads TF_CONFIG; all of them run the same program on mirrored variables, and the
gradients are summed over the workers at each step. The loop is written with tf.distribute itself:
Keras 3 does not train under this strategy. Without TF_CONFIG it trains alone.

    arena submit tf --name=mirrored --image=python:3.12 --gang --workers=2 \\
        "python tf_multiworker.py --steps 100"
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

# Quiet, and one core per process: a model this small gains nothing from threads or a GPU.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")

import numpy as np
import tensorflow as tf

FEATURES, HIDDEN, CLASSES, ROWS = 20, 32, 4, 2000


def main() -> None:
    args = arguments()
    config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    task = config.get("task", {"type": "worker", "index": 0})
    print(
        f"{task['type']} {task['index']} of {config.get('cluster')}, pid {os.getpid()}", flush=True
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = Network()
    first, last = train(args, strategy, model)
    print(f"trained: loss {first:.4f} -> {last:.4f}", flush=True)
    # True in one process only: the chief or, without a chief, worker 0.
    if args.export and strategy.extended.should_checkpoint:
        tf.saved_model.save(model, str(args.export))
    if not last < first:
        sys.exit("the loss did not fall")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rate", type=float, default=0.5, help="learning rate")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds to rest after each step")
    parser.add_argument("--report", type=int, default=10, help="print the loss every so many steps")
    parser.add_argument("--logdir", type=Path, help="write TensorBoard event files here")
    parser.add_argument("--export", type=Path, help="write the model here, as a SavedModel")
    return parser.parse_args()


def train(
    args: argparse.Namespace, strategy: tf.distribute.Strategy, model: Network
) -> tuple[float, float]:
    """The loss at the first and at the last step; the same in every worker."""
    # Each worker takes every n-th row of the whole batch: the shards are the same at every step.
    batch = next(iter(strategy.distribute_datasets_from_function(shard)))
    logged = args.logdir and strategy.extended.should_save_summary
    writer = tf.summary.create_file_writer(str(args.logdir)) if logged else None

    @tf.function  # type: ignore[untyped-decorator]
    def advance() -> tf.Tensor:
        shares = strategy.run(model.improve, args=(*batch, args.rate))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, shares, axis=None)

    first = last = float("nan")
    for step in range(1, args.steps + 1):
        last = float(advance())
        first = last if step == 1 else first
        if writer:
            with writer.as_default(step):
                tf.summary.scalar("loss", last)
        if step == 1 or step % args.report == 0 or step == args.steps:
            print(f"step {step} loss {last:.4f}", flush=True)
        time.sleep(args.pause)
    return first, last


class Network(tf.Module):  # type: ignore[misc]  # TensorFlow carries no types
    """One hidden layer; values assigned to a variable are summed over the workers first."""

    def __init__(self) -> None:
        super().__init__()
        source = np.random.default_rng(7)
        self.hidden = mirrored(source.normal(size=(FEATURES, HIDDEN)) / FEATURES**0.5)
        self.shift = mirrored(np.zeros(HIDDEN))
        self.output = mirrored(source.normal(size=(HIDDEN, CLASSES)) / HIDDEN**0.5)

    @tf.function(input_signature=[tf.TensorSpec((None, FEATURES), tf.float32, name="inputs")])  # type: ignore[untyped-decorator]
    def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
        return tf.tanh(inputs @ self.hidden + self.shift) @ self.output

    def improve(self, inputs: tf.Tensor, labels: tf.Tensor, rate: float) -> tf.Tensor:
        """One step down the gradient; returns this worker's share of the loss before it."""
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, self(inputs))
            share = tf.reduce_sum(losses) / ROWS
        variables = self.trainable_variables
        for variable, slope in zip(variables, tape.gradient(share, variables), strict=True):
            variable.assign_sub(rate * slope)
        return share


def mirrored(value: np.ndarray) -> tf.Variable:
    return tf.Variable(value, dtype=tf.float32, aggregation=tf.VariableAggregation.SUM)


def shard(context: tf.distribute.InputContext) -> tf.data.Dataset:
    """This worker's rows of the data set, which all workers make from the same seed."""
    source = np.random.default_rng(7)
    truth = source.normal(size=(FEATURES, CLASSES))
    inputs = source.normal(size=(ROWS, FEATURES)).astype(np.float32)
    labels = (inputs @ truth).argmax(axis=1)
    own = slice(context.input_pipeline_id, None, context.num_input_pipelines)
    return tf.data.Dataset.from_tensors((inputs[own], labels[own]))


if __name__ == "__main__":
    main()
