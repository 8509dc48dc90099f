"""Data-parallel training with a parameter server, in numpy and plain sockets.

Every process reads TF_CONFIG, as TensorFlow itself would: parameter servers keep the weights, chief
and workers each train on their own shard and exchange gradients with the servers once per step. The
steps are synchronous, so the result does not depend on the speed of trainers. If a trainer dies,
the others wait; when it is back, it continues at the step where it died.

    arena submit tf --name=hello --image=python:3.12 --gang --workers=2 --ps=1 \\
        "python numpy_ps.py --steps 100"
"""

from __future__ import annotations

import argparse
import io
import json
import os
import socket
import struct
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

FEATURES, CLASSES, ROWS = 20, 4, 2000


def main() -> None:
    args = arguments()
    config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    cluster: dict[str, list[str]] = config.get("cluster", {})
    task = config.get("task", {"type": "chief", "index": 0})
    trainers = [*cluster.get("chief", []), *cluster.get("master", []), *cluster.get("worker", [])]
    servers = cluster.get("ps", [])
    print(f"{task['type']} {task['index']} of {json.dumps(cluster)}, pid {os.getpid()}", flush=True)
    if task["type"] == "ps":
        port = int(servers[task["index"]].rpartition(":")[2])
        serve(port, trainers=len(trainers), stay=args.stay)
        return
    position = task["index"]
    if task["type"] == "worker":
        position += len(trainers) - len(cluster.get("worker", []))
    train(args, servers, position, max(1, len(trainers)))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rate", type=float, default=0.5, help="learning rate")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds to rest after each step")
    parser.add_argument("--report", type=int, default=10, help="print the loss every so many steps")
    parser.add_argument(
        "--stay", action="store_true", help="servers do not end by themselves, as TensorFlow's"
    )
    parser.add_argument("--logdir", type=Path, help="write TensorBoard event files here")
    parser.add_argument("--export", type=Path, help="write the weights here, as model.npz")
    return parser.parse_args()


def train(args: argparse.Namespace, servers: list[str], position: int, trainers: int) -> None:
    """Fit a softmax classifier on this trainer's shard; fail if the loss did not fall."""
    inputs, targets = shard(position, trainers)
    links = [connect(address) for address in servers]
    weights = np.zeros((FEATURES, CLASSES))
    first = loss_and_gradient(weights, inputs, targets)[0]
    begin, weights = join(links, position), pull(links, weights)
    last = loss_and_gradient(weights, inputs, targets)[0]
    record = recorder(args.logdir if position == 0 else None)
    for step in range(begin, args.steps + 1):
        weights = pull(links, weights)
        last, gradient = loss_and_gradient(weights, inputs, targets)
        weights = push(links, step, weights, args.rate * gradient)
        record(last, step)
        if step == 1 or step % args.report == 0 or step == args.steps:
            print(f"step {step} loss {last:.4f}", flush=True)
        time.sleep(args.pause)
    weights = pull(links, weights)
    part_from(links)
    if args.export and position == 0:
        args.export.mkdir(parents=True, exist_ok=True)
        np.savez(args.export / "model.npz", weights=weights)
    print(f"trained: loss {first:.4f} -> {last:.4f}", flush=True)
    if not last < first:
        sys.exit("the loss did not fall")


def recorder(logdir: Path | None) -> Callable[[float, int], None]:
    """A function that records the loss of a step for TensorBoard."""
    if logdir is None:
        return lambda _loss, _step: None
    from events import EventWriter  # type: ignore[import-not-found]  # beside this script

    writer = EventWriter(logdir)
    return lambda loss, step: writer.scalar("loss", loss, step)


def shard(position: int, trainers: int) -> tuple[np.ndarray, np.ndarray]:
    """This trainer's rows of the data set, which all trainers make from the same seed."""
    source = np.random.default_rng(7)
    truth = source.normal(size=(FEATURES, CLASSES))
    inputs = source.normal(size=(ROWS, FEATURES))
    labels = (inputs @ truth).argmax(axis=1)
    return inputs[position::trainers], np.eye(CLASSES)[labels[position::trainers]]


def loss_and_gradient(
    weights: np.ndarray, inputs: np.ndarray, targets: np.ndarray
) -> tuple[float, np.ndarray]:
    scores = inputs @ weights
    scores -= scores.max(axis=1, keepdims=True)
    chances = np.exp(scores)
    chances /= chances.sum(axis=1, keepdims=True)
    loss = float(-np.log((chances * targets).sum(axis=1) + 1e-12).mean())
    return loss, inputs.T @ (chances - targets) / len(inputs)


def join(links: list[socket.socket], position: int) -> int:
    """Register with the servers; returns the step to begin with.

    The servers may differ by the step in which this trainer died.
    """
    for link in links:
        send(link, f"join {position}", np.zeros(0))
    return min((int(receive(link)[1]) for link in links), default=1)


def part_from(links: list[socket.socket]) -> None:
    """Wait until all trainers are done: a server that restarts needs all of them until then."""
    for link in links:
        send(link, "done", np.zeros(0))
    for link in links:
        receive(link)
        link.close()


def pull(links: list[socket.socket], weights: np.ndarray) -> np.ndarray:
    """The current weights, a slice from each server; without servers, our own."""
    for link in links:
        send(link, "pull", np.zeros(0))
    return np.concatenate([receive(link)[1] for link in links]) if links else weights


def push(
    links: list[socket.socket], step: int, weights: np.ndarray, update: np.ndarray
) -> np.ndarray:
    """Send each server its slice of the update; returns when every trainer has done so."""
    for link, part in zip(links, np.array_split(update, max(1, len(links))), strict=False):
        send(link, f"push {step}", part)
    for link in links:
        receive(link)
    remaining: np.ndarray = weights - update
    return remaining


def serve(port: int, *, trainers: int, stay: bool) -> None:
    """Keep this server's slice of the weights until every trainer is done, or forever."""
    config = json.loads(os.environ["TF_CONFIG"])
    servers, index = len(config["cluster"]["ps"]), config["task"]["index"]
    state = Server(np.array_split(np.zeros((FEATURES, CLASSES)), servers)[index], trainers)
    with socket.create_server(("0.0.0.0", port)) as listener:
        print(f"serving rows {state.weights.shape[0]} on port {port}", flush=True)
        threading.Thread(target=state.accept, args=(listener,), daemon=True).start()
        state.finished.wait()
        print(f"all {trainers} trainers are done after {state.step - 1} steps", flush=True)
        if stay:
            threading.Event().wait()


class Server:
    """Averages one update of every trainer per step, and waits for trainers that are away."""

    def __init__(self, weights: np.ndarray, trainers: int) -> None:
        self.weights = weights
        self.step = 1
        self.finished = threading.Event()
        self._trainers = trainers
        self._updates: dict[int, np.ndarray] = {}
        self._done: set[int] = set()
        self._gone: set[int] = set()
        self._changed = threading.Condition()

    def accept(self, listener: socket.socket) -> None:
        while True:
            link, _ = listener.accept()
            threading.Thread(target=self._talk, args=(link,), daemon=True).start()

    def _talk(self, link: socket.socket) -> None:
        position = -1
        with link:
            try:
                while True:
                    position = self._answer(link, position)
            except (OSError, EOFError):
                if position not in self._gone:
                    print(f"trainer {position} went away; waiting for it", flush=True)

    def _answer(self, link: socket.socket, position: int) -> int:
        message, array = receive(link)
        word, _, number = message.partition(" ")
        if word == "join":
            send(link, "step", np.array(self.step))
            return int(number)
        if word == "pull":
            send(link, "weights", self.weights)
        elif word == "push":
            self._add(position, int(number), array)
            send(link, "ok", np.zeros(0))
        elif word == "done":
            self._part(position)
            send(link, "bye", np.zeros(0))
            self._gone.add(position)
            if len(self._gone) == self._trainers:
                self.finished.set()
        return position

    def _part(self, position: int) -> None:
        with self._changed:
            self._done.add(position)
            self._changed.notify_all()
            self._changed.wait_for(lambda: len(self._done) == self._trainers)

    def _add(self, position: int, step: int, update: np.ndarray) -> None:
        """Count the update once, even if its trainer died and sends it again."""
        with self._changed:
            if step == self.step:
                self._updates[position] = update
            if len(self._updates) == self._trainers:
                self.weights = self.weights - np.mean(list(self._updates.values()), axis=0)
                self._updates = {}
                self.step += 1
                self._changed.notify_all()
            self._changed.wait_for(lambda: self.step > step)


def connect(address: str, *, patience: float = 60.0) -> socket.socket:
    """Connect to a peer; retries until it listens, because it may start later."""
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + patience
    while True:
        try:
            return socket.create_connection((host, int(port)), timeout=patience)
        except OSError as error:
            if time.monotonic() > deadline:
                sys.exit(f"cannot reach {address}: {error}")
            time.sleep(0.05)


def send(link: socket.socket, word: str, array: np.ndarray) -> None:
    body = io.BytesIO()
    np.save(body, array, allow_pickle=False)
    head = word.encode()
    link.sendall(struct.pack("!II", len(head), body.tell()) + head + body.getvalue())


def receive(link: socket.socket) -> tuple[str, np.ndarray]:
    head, body = struct.unpack("!II", exactly(link, 8))
    word = exactly(link, head).decode()
    return word, np.load(io.BytesIO(exactly(link, body)), allow_pickle=False)


def exactly(link: socket.socket, count: int) -> bytes:
    parts = b""
    while len(parts) < count:
        more = link.recv(count - len(parts))
        if not more:
            raise EOFError("the peer closed the connection")
        parts += more
    return parts


if __name__ == "__main__":
    main()
