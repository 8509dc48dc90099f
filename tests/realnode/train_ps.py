"""Training with TensorFlow's classic processes: one parameter server, workers that update it.

No chief: worker 0 initialises the variables, as in jobs of 1 PS and 2 workers. Every worker fits a
line to its own points. A worker ends when all workers are done; the parameter server never does.
"""

from __future__ import annotations

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow.compat.v1 as tf

from tests.waiting import until

SLOPE, OFFSET = 3.0, -1.0
PATIENCE = 600.0


def main() -> None:
    config = json.loads(os.environ["TF_CONFIG"])
    task, cluster = config["task"], tf.train.ClusterSpec(config["cluster"])
    server = tf.train.Server(cluster, job_name=task["type"], task_index=task["index"])
    if task["type"] == "ps":
        server.join()
    train(server, task["index"], len(config["cluster"]["worker"]), int(sys.argv[1]))


def train(server: tf.train.Server, index: int, workers: int, steps: int) -> None:
    tf.disable_eager_execution()
    own = f"/job:worker/task:{index}"
    with tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device=own)):
        slope = tf.get_variable("slope", initializer=0.0)
        offset = tf.get_variable("offset", initializer=0.0)
        step = tf.get_variable("step", initializer=0)
        finished = tf.get_variable("finished", initializer=0)
        points = np.random.default_rng(index).normal(size=200).astype(np.float32)
        loss = tf.reduce_mean(tf.square(slope * points + offset - (SLOPE * points + OFFSET)))
        advance = tf.train.GradientDescentOptimizer(0.05).minimize(loss, global_step=step)
        leave = tf.assign_add(finished, 1, use_locking=True)
        missing = tf.report_uninitialized_variables()
    with tf.Session(server.target) as session:
        if index == 0:
            session.run(tf.global_variables_initializer())
        until(lambda: session.run(missing).size == 0, timeout=PATIENCE, what="worker 0")
        print(f"worker {index} starts with loss {session.run(loss):.4f}", flush=True)
        for _ in range(steps):
            session.run(advance)
        session.run(leave)
        until(lambda: session.run(finished) == workers, timeout=PATIENCE, what="all workers")
        last, taken, line = session.run([loss, step, [slope, offset]])
    print(f"step {taken} of {workers} workers: {line[0]:.3f} x + {line[1]:.3f}", flush=True)
    print(f"trained: loss {last:.6f}", flush=True)
    if last > 0.01:
        sys.exit("the loss did not fall")


if __name__ == "__main__":
    main()
