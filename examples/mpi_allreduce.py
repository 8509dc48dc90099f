"""Data-parallel training with MPI: every rank averages its gradient with all the others'.

Started by mpirun, which gives each process its rank. All ranks begin with the same weights and add
up the same gradients, so their weights stay equal and are never sent. `-m mpi4py` stops all ranks
when one of them raises an exception; without it the others would never stop waiting for that rank.

    mpirun -n 4 python -m mpi4py mpi_allreduce.py --steps 100
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
from pathlib import Path

# The ranks are the parallelism; a thread pool in each rank would only compete for the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from events import EventWriter  # type: ignore[import-not-found]  # beside this script
from mpi4py import MPI

FEATURES, CLASSES, ROWS = 20, 4, 2000


def main() -> None:
    args = arguments()
    world = MPI.COMM_WORLD
    print(f"rank {world.rank} of {world.size} on {socket.gethostname()}", flush=True)
    weights, first, last = train(args, world)
    if world.rank == 0:
        if args.export:
            args.export.mkdir(parents=True, exist_ok=True)
            np.savez(args.export / "model.npz", weights=weights)
        print(f"trained: loss {first:.4f} -> {last:.4f}", flush=True)
    if not last < first:
        sys.exit("the loss did not fall")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rate", type=float, default=0.5, help="learning rate")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds to rest after each step")
    parser.add_argument("--report", type=int, default=10, help="print the loss every so many steps")
    parser.add_argument("--logdir", type=Path, help="write TensorBoard event files here")
    parser.add_argument("--export", type=Path, help="write the weights here, as model.npz")
    return parser.parse_args()


def train(args: argparse.Namespace, world: MPI.Intracomm) -> tuple[np.ndarray, float, float]:
    """Fit a softmax classifier; the weights, and the loss at the first and at the last step."""
    inputs, targets = shard(world.rank, world.size)
    weights = np.zeros((FEATURES, CLASSES))
    events = EventWriter(args.logdir) if args.logdir and world.rank == 0 else None
    first = last = float("nan")
    for step in range(1, args.steps + 1):
        share, gradient = loss_and_gradient(weights, inputs, targets)
        # The loss is sent together with the gradient: one message per step.
        total = np.append(gradient, share)
        world.Allreduce(MPI.IN_PLACE, total, op=MPI.SUM)
        loss = float(total[-1])
        weights = weights - args.rate * total[:-1].reshape(weights.shape)
        first, last = (loss if step == 1 else first), loss
        if events:
            events.scalar("loss", loss, step)
        if world.rank == 0 and (step == 1 or step % args.report == 0 or step == args.steps):
            print(f"step {step} loss {loss:.4f}", flush=True)
        time.sleep(args.pause)
    return weights, first, last


def shard(rank: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """This rank's rows of the data set, which all ranks make from the same seed."""
    source = np.random.default_rng(7)
    truth = source.normal(size=(FEATURES, CLASSES))
    inputs = source.normal(size=(ROWS, FEATURES))
    labels = (inputs @ truth).argmax(axis=1)
    return inputs[rank::size], np.eye(CLASSES)[labels[rank::size]]


def loss_and_gradient(
    weights: np.ndarray, inputs: np.ndarray, targets: np.ndarray
) -> tuple[float, np.ndarray]:
    """This shard's share of the mean over all rows: the shares of all ranks add up to it."""
    scores = inputs @ weights
    scores -= scores.max(axis=1, keepdims=True)
    chances = np.exp(scores)
    chances /= chances.sum(axis=1, keepdims=True)
    share = float(-np.log((chances * targets).sum(axis=1) + 1e-12).sum() / ROWS)
    return share, inputs.T @ (chances - targets) / ROWS


if __name__ == "__main__":
    main()
