"""The commands and manifests of the guides that users follow, word for word.

Tests on the local cluster and on real ones run the same words from here.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from tests.repository import ROOT

EXAMPLES = ROOT / "examples"
MANIFESTS = Path(__file__).parents[1] / "operator" / "end_to_end" / "guides"
VOLCANO, KUBE_ARBITRATOR = MANIFESTS / "volcano.yaml", MANIFESTS / "kube-arbitrator.yaml"
MANIFEST_JOB = "tfjob-gang-scheduling"
SEED = (
    "process -f openshift/tf-job_distributed-template.yaml"
    " --param JOB_NAME=training-distributed-user1 --param IMAGE_NAME=training-user1"
    " --param BUCKET=user1 --param WORKERS=2"
)
WORKSHOP = f"oc {SEED} | oc apply -f -"
WORKSHOP_JOB = "training-distributed-user1"
WORKSHOP_PODS = "oc get pods | grep user1"
WORKSHOP_LOGS = f"oc logs -f {WORKSHOP_JOB}-chief-0"
GANG_VALUES = "enableGangScheduler: true\n"
"""The edited line of `charts/tfjob/values.yaml`."""
TENSORFLOW = r"""
arena submit tf --name=tf-dist-git              \
              --gpus=1              \
              --workers=2              \
              --workerImage=tensorflow/tensorflow:1.5.0-devel-gpu  \
              --syncMode=git \
              --syncSource=https://github.com/cheyang/tensorflow-sample-code.git \
              --ps=1              \
              --psImage=tensorflow/tensorflow:1.5.0-devel   \
              "python code/tensorflow-sample-code/tfjob/docker/v1alpha2/distributed-mnist/main.py --logdir /training_logs"
"""  # noqa: E501
MPI = r"""
arena submit mpi \
    --name=mpi-dist \
    --gpus=2 \
    --workers={workers} \
    --gang=true \
    --image=uber/horovod:0.13.11-tf1.10.0-torch0.4.0-py3.5 \
    --env=GIT_SYNC_BRANCH=cnn_tf_v1.9_compatible \
    --sync-mode=git \
    --sync-source=https://github.com/tensorflow/benchmarks.git \
    --tensorboard \
    "mpirun python code/benchmarks/scripts/tf_cnn_benchmarks/tf_cnn_benchmarks.py --model resnet101 --batch_size 64 --variable_update horovod --train_dir=/training_logs --summary_verbosity=3 --save_summaries_steps=10"
"""  # noqa: E501


GET_TENSORFLOW = "arena get tf-dist-data"
GET_MPI = "arena get mpi-dist"


def typed(text: str) -> list[str]:
    """What a shell makes of it, without the name of the program."""
    return shlex.split(text.replace("\\\n", " "))[1:]


SEEDS = {
    "tensorflow": typed(TENSORFLOW),
    "mpi of 5": typed(MPI.replace("{workers}", "5")),
    "mpi of 4": typed(MPI.replace("{workers}", "4")),
}
