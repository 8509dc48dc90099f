"""Data-parallel training as PyTorch's processes do it, in numpy and plain sockets.

Every process reads MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE, as torch.distributed would. Rank
0 adds up all gradients and sends the sum back, so that all ranks keep the same weights; a rank that
is lost ends the job. Without these variables it trains alone.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=23456 python numpy_allreduce.py
"""

from __future__ import annotations

import os
import socket
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
from numpy_ps import (  # type: ignore[import-not-found]  # beside this script
    CLASSES,
    FEATURES,
    arguments,
    connect,
    loss_and_gradient,
    receive,
    recorder,
    send,
    shard,
)

if TYPE_CHECKING:
    import argparse


def main() -> None:
    args = arguments()
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    print(f"rank {rank} of {size}, pid {os.getpid()}", flush=True)
    links = meet(rank, size)
    weights, first, last = train(args, links, rank, size)
    if rank == 0 and args.export:
        args.export.mkdir(parents=True, exist_ok=True)
        np.savez(args.export / "model.npz", weights=weights)
    print(f"trained: loss {first:.4f} -> {last:.4f}", flush=True)
    if not last < first:
        sys.exit("the loss did not fall")


def meet(rank: int, size: int) -> list[socket.socket]:
    """Connect the ranks: rank 0 to every other rank."""
    if size == 1:
        return []
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if rank:
        return [connect(f"{address}:{port}")]
    with socket.create_server(("0.0.0.0", port)) as listener:
        return [listener.accept()[0] for _ in range(size - 1)]


def train(
    args: argparse.Namespace, links: list[socket.socket], rank: int, size: int
) -> tuple[np.ndarray, float, float]:
    """Fit a softmax classifier; the weights, and the loss at the first and at the last step."""
    inputs, targets = shard(rank, size)
    weights = np.zeros((FEATURES, CLASSES))
    record = recorder(args.logdir if rank == 0 else None)
    first = last = float("nan")
    for step in range(1, args.steps + 1):
        loss, gradient = loss_and_gradient(weights, inputs, targets)
        # The loss is sent together with the gradient: one message per step.
        mean = add_up(links, rank, np.append(gradient, loss)) / size
        weights = weights - args.rate * mean[:-1].reshape(weights.shape)
        last = float(mean[-1])
        first = last if step == 1 else first
        record(last, step)
        if step == 1 or step % args.report == 0 or step == args.steps:
            print(f"step {step} loss {last:.4f}", flush=True)
        time.sleep(args.pause)
    return weights, first, last


def add_up(links: list[socket.socket], rank: int, values: np.ndarray) -> np.ndarray:
    """The sum over all ranks, the same in every rank."""
    if rank:
        send(links[0], "add", values)
        answer: np.ndarray = receive(links[0])[1]
        return answer
    total: np.ndarray = values + sum(receive(link)[1] for link in links)
    for link in links:
        send(link, "sum", total)
    return total


if __name__ == "__main__":
    main()
