"""Data-parallel training in JAX: every process holds a part of the batch, all hold the same model.

The environment is that of a JAXJob: COORDINATOR_ADDRESS and COORDINATOR_PORT (the first process),
NUM_PROCESSES and PROCESS_ID. The arrays span the processes, so one jitted step is the whole
program: XLA puts the exchange of gradients where the batch is averaged. Without that environment
it trains alone. The workers of a JAXJob each run

    python jax_dp.py --steps 100
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

# A model this small runs fastest on one CPU core. JAX reads these variables when it is imported.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import jax
import jax.numpy as jnp
import numpy as np
from events import EventWriter  # type: ignore[import-not-found]  # beside this script
from jax.sharding import Mesh, NamedSharding, PartitionSpec

FEATURES, HIDDEN, CLASSES, ROWS = 20, 32, 4, 2000
Model = dict[str, jax.Array]


def main() -> None:
    args = arguments()
    join()
    me, everyone = jax.process_index(), jax.process_count()
    print(
        f"process {me} of {everyone}, {jax.device_count()} devices, pid {os.getpid()}", flush=True
    )
    model, first, last = train(args)
    if me == 0:
        if args.export:
            args.export.mkdir(parents=True, exist_ok=True)
            np.savez(args.export / "model.npz", **jax.device_get(model))
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


def join() -> None:
    """Connect to the other processes, before the first use of a device fixes their number."""
    if "COORDINATOR_ADDRESS" not in os.environ:
        return
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(
        coordinator_address=f"{os.environ['COORDINATOR_ADDRESS']}:{os.environ['COORDINATOR_PORT']}",
        num_processes=int(os.environ["NUM_PROCESSES"]),
        process_id=int(os.environ["PROCESS_ID"]),
        # Nothing is left to detect. In a pod JAX would warn of the missing package `kubernetes`.
        cluster_detection_method="deactivate",
    )


def train(args: argparse.Namespace) -> tuple[Model, float, float]:
    """Fit a small network; its weights, and the loss at the first and at the last step."""
    mesh = Mesh(jax.devices(), ("data",))
    inputs, labels = (spread(mesh, rows) for rows in shard())
    model = jax.device_put(start(), NamedSharding(mesh, PartitionSpec()))
    events = EventWriter(args.logdir) if args.logdir and jax.process_index() == 0 else None
    first = last = float("nan")
    for step in range(1, args.steps + 1):
        model, loss = advance(model, inputs, labels, args.rate)
        last = float(loss)
        first = last if step == 1 else first
        if events:
            events.scalar("loss", last, step)
        if step == 1 or step % args.report == 0 or step == args.steps:
            print(f"step {step} loss {last:.4f}", flush=True)
        time.sleep(args.pause)
    return model, first, last


@jax.jit  # type: ignore[untyped-decorator, unused-ignore]
def advance(
    model: Model, inputs: jax.Array, labels: jax.Array, rate: float
) -> tuple[Model, jax.Array]:
    """One step down the gradient; the loss is that of the model before it."""
    loss, gradient = jax.value_and_grad(loss_of)(model, inputs, labels)
    return jax.tree.map(lambda value, slope: value - rate * slope, model, gradient), loss


def loss_of(model: Model, inputs: jax.Array, labels: jax.Array) -> jax.Array:
    hidden = jnp.tanh(inputs @ model["hidden"] + model["shift"])
    chances = jax.nn.log_softmax(hidden @ model["output"])
    return -jnp.take_along_axis(chances, labels[:, None], axis=1).mean()


def start() -> Model:
    """The initial weights, the same in every process: the seed is the same."""
    source = np.random.default_rng(7)
    return {
        "hidden": jnp.array(source.normal(size=(FEATURES, HIDDEN)) / FEATURES**0.5),
        "shift": jnp.zeros(HIDDEN),
        "output": jnp.array(source.normal(size=(HIDDEN, CLASSES)) / HIDDEN**0.5),
    }


def shard() -> tuple[np.ndarray, np.ndarray]:
    """This process's rows of the data set, which all processes make from the same seed."""
    source = np.random.default_rng(7)
    truth = source.normal(size=(FEATURES, CLASSES))
    inputs = source.normal(size=(ROWS, FEATURES)).astype(np.float32)
    labels = (inputs @ truth).argmax(axis=1).astype(np.int32)
    # Equal parts: otherwise the processes would disagree about the shape of the whole array.
    part = ROWS // jax.process_count()
    own = slice(jax.process_index() * part, (jax.process_index() + 1) * part)
    return inputs[own], labels[own]


def spread(mesh: Mesh, rows: np.ndarray) -> jax.Array:
    """An array over all processes, of which this one holds `rows`."""
    return jax.make_array_from_process_local_data(NamedSharding(mesh, PartitionSpec("data")), rows)


if __name__ == "__main__":
    main()
