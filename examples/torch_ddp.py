"""Data-parallel training in PyTorch: DistributedDataParallel over gloo, on processors.

The environment is that of a PyTorchJob: MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK, or the
PET_ variables from which torchrun makes them. Every process has a part of the rows, and the model's
gradients are averaged while the backward pass still runs. Without that environment it trains alone.
The replicas of a PyTorchJob each run one of

    python torch_ddp.py --steps 100
    torchrun torch_ddp.py --steps 100
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import torch
from events import EventWriter  # type: ignore[import-not-found]  # beside this script
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

FEATURES, HIDDEN, CLASSES, ROWS = 20, 32, 4, 2000


def main() -> None:
    args = arguments()
    torch.set_num_threads(1)  # the replicas are the parallelism, and the model is small
    if "RANK" in os.environ:
        distributed.init_process_group("gloo")
    else:
        store = distributed.HashStore()
        distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    rank, size = distributed.get_rank(), distributed.get_world_size()
    print(f"rank {rank} of {size}, pid {os.getpid()}", flush=True)
    model, first, last = train(args, rank, size)
    if rank == 0:
        if args.export:
            args.export.mkdir(parents=True, exist_ok=True)
            torch.save(model.state_dict(), args.export / "model.pt")
        print(f"trained: loss {first:.4f} -> {last:.4f}", flush=True)
    distributed.destroy_process_group()
    if not last < first:
        sys.exit("the loss did not fall")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rate", type=float, default=0.5, help="learning rate")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds to rest after each step")
    parser.add_argument("--report", type=int, default=10, help="print the loss every so many steps")
    parser.add_argument("--logdir", type=Path, help="write TensorBoard event files here")
    parser.add_argument("--export", type=Path, help="write the weights here, as model.pt")
    return parser.parse_args()


def train(args: argparse.Namespace, rank: int, size: int) -> tuple[nn.Module, float, float]:
    """Fit a small network; it, and the loss at the first and at the last step."""
    inputs, labels = shard(rank, size)
    torch.manual_seed(7)  # the same initial weights in every process
    layers = nn.Linear(FEATURES, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, CLASSES)
    model = DistributedDataParallel(nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.rate)
    events = EventWriter(args.logdir) if args.logdir and rank == 0 else None
    first = last = float("nan")
    for step in range(1, args.steps + 1):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        last = mean(loss, size)
        first = last if step == 1 else first
        if events:
            events.scalar("loss", last, step)
        if rank == 0 and (step == 1 or step % args.report == 0 or step == args.steps):
            print(f"step {step} loss {last:.4f}", flush=True)
        time.sleep(args.pause)
    return model.module, first, last


def mean(loss: torch.Tensor, size: int) -> float:
    """The loss of the whole batch: each process knows that of its own rows."""
    total = loss.detach().clone()
    distributed.all_reduce(total)
    return float(total) / size


def shard(rank: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """This process's rows of the data set, which all processes make from the same seed."""
    source = torch.Generator().manual_seed(7)
    truth = torch.randn(FEATURES, CLASSES, generator=source)
    inputs = torch.randn(ROWS, FEATURES, generator=source)
    labels = (inputs @ truth).argmax(dim=1)
    # Equal parts: DistributedDataParallel gives the gradient of every process the same weight.
    part = ROWS // size
    own = slice(rank * part, (rank + 1) * part)
    return inputs[own], labels[own]


if __name__ == "__main__":
    main()
