"""Data-parallel training with a parameter server, in numpy and plain sockets.

Every process reads TF_CONFIG, as TensorFlow itself would: parameter servers keep the weights, chief
and workers each train on their own shard and exchange gradients with the servers once a step. The
steps are synchronous, so the result does not depend on who is faster.

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

import numpy as np

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
        serve(port, trainers=len(trainers))
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
    return parser.parse_args()


def train(args: argparse.Namespace, servers: list[str], position: int, trainers: int) -> None:
    """Fit a softmax classifier on this trainer's shard; fail if the loss did not fall."""
    inputs, targets = shard(position, trainers)
    links = [connect(address) for address in servers]
    weights = np.zeros((FEATURES, CLASSES))
    first = last = float("nan")
    for step in range(1, args.steps + 1):
        weights = pull(links, weights)
        loss, gradient = loss_and_gradient(weights, inputs, targets)
        weights = push(links, weights, args.rate * gradient)
        first, last = (loss if step == 1 else first), loss
        if step == 1 or step % args.report == 0 or step == args.steps:
            print(f"step {step} loss {loss:.4f}", flush=True)
        time.sleep(args.pause)
    for link in links:
        send(link, "done", np.zeros(0))
        link.close()
    print(f"trained: loss {first:.4f} -> {last:.4f}", flush=True)
    if not last < first:
        sys.exit("the loss did not fall")


def shard(position: int, trainers: int) -> tuple[np.ndarray, np.ndarray]:
    """This trainer's rows of one data set that all of them make from the same seed."""
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


def pull(links: list[socket.socket], weights: np.ndarray) -> np.ndarray:
    """The current weights; each server keeps a slice of the rows. Without servers, our own."""
    for link in links:
        send(link, "pull", np.zeros(0))
    return np.concatenate([receive(link)[1] for link in links]) if links else weights


def push(links: list[socket.socket], weights: np.ndarray, update: np.ndarray) -> np.ndarray:
    """Hand each server its slice of the update; returns when every trainer has done so."""
    for link, part in zip(links, np.array_split(update, max(1, len(links))), strict=False):
        send(link, "push", part)
    for link in links:
        receive(link)
    remaining: np.ndarray = weights - update
    return remaining


def serve(port: int, *, trainers: int) -> None:
    """Keep this server's slice of the weights until every trainer is done."""
    config = json.loads(os.environ["TF_CONFIG"])
    servers, index = len(config["cluster"]["ps"]), config["task"]["index"]
    state = Server(np.array_split(np.zeros((FEATURES, CLASSES)), servers)[index], trainers)
    with socket.create_server(("0.0.0.0", port)) as listener:
        print(f"serving rows {state.weights.shape[0]} on port {port}", flush=True)
        threads = []
        for _ in range(trainers):
            link, _ = listener.accept()
            thread = threading.Thread(target=state.talk, args=(link,))
            thread.start()
            threads.append(thread)
        for thread in threads:
            thread.join()
    if state.lost:
        sys.exit("a trainer went away before it was done")
    print(f"all {trainers} trainers are done after {state.step} steps", flush=True)


class Server:
    """Averages one update of every trainer per step."""

    def __init__(self, weights: np.ndarray, trainers: int) -> None:
        self.weights = weights
        self.step = 0
        self.lost = False
        self._updates: list[np.ndarray] = []
        self._everyone = threading.Barrier(trainers, action=self._apply)
        self._lock = threading.Lock()

    def talk(self, link: socket.socket) -> None:
        with link:
            try:
                while self._answer(link):
                    pass
            except (OSError, EOFError, threading.BrokenBarrierError):
                self.lost = True
                self._everyone.abort()

    def _answer(self, link: socket.socket) -> bool:
        word, array = receive(link)
        if word == "pull":
            send(link, "weights", self.weights)
        elif word == "push":
            with self._lock:
                self._updates.append(array)
            self._everyone.wait()
            send(link, "ok", np.zeros(0))
        return word != "done"

    def _apply(self) -> None:
        self.weights = self.weights - np.mean(self._updates, axis=0)
        self._updates = []
        self.step += 1


def connect(address: str, *, patience: float = 60.0) -> socket.socket:
    """A peer may start later than we do: try until it answers."""
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
