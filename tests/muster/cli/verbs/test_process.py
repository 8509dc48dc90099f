"""`arena process` prints the output of `oc process`, and the shipped template really trains."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import yaml
from examples.openshift import embed, s3

from muster.cli import main
from muster.jobs import parse
from tests.muster.cli.seeds import EXAMPLES, SEED

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def arena(*argv: str) -> tuple[int, str, str]:
        code = main.run("arena", list(argv))
        out = capsys.readouterr()
        return code, out.out, out.err

    return arena


@pytest.fixture
def small(tmp_path: Path) -> str:
    path = tmp_path / "small.yaml"
    path.write_text("""
kind: Template
apiVersion: v1
parameters:
- {name: NAME, description: What it is called, required: true}
- {name: SIZE, value: "3"}
- {name: PIN, generate: expression, from: "[0-9]{4}"}
objects:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: "${NAME}"}
  data: {size: "${SIZE}", day: 2024-01-02, pin: "${PIN}"}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: "${NAME}"}
  spec: {replicas: "${{SIZE}}"}
""")
    return str(path)


def items(text: str) -> list[dict[str, Any]]:
    objects: list[dict[str, Any]] = json.loads(text)["items"]
    return objects


# The seed's line


@pytest.fixture
def seed_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(EXAMPLES)
    code, out, err = run(*SEED.split())
    assert (code, err) == (0, "")
    return out


def test_the_seeds_line_gives_a_list_of_claim_program_and_job(seed_line: str) -> None:
    whole = json.loads(seed_line)

    assert list(whole) == ["kind", "apiVersion", "metadata", "items"]
    assert (whole["kind"], whole["apiVersion"]) == ("List", "v1")
    assert [(i["apiVersion"], i["kind"], i["metadata"]["name"]) for i in whole["items"]] == [
        ("v1", "PersistentVolumeClaim", "models"),
        ("v1", "ConfigMap", "training-distributed-user1-program"),
        ("kubeflow.org/v1beta1", "TFJob", "training-distributed-user1"),
    ]
    assert {json.dumps(i["metadata"]["labels"]) for i in whole["items"]} == {
        '{"template": "tf-job-distributed"}'
    }


def test_the_seeds_job_has_one_chief_one_ps_and_the_given_workers(seed_line: str) -> None:
    job = items(seed_line)[2]

    replicas = job["spec"]["tfReplicaSpecs"]
    assert {role: body["replicas"] for role, body in replicas.items()} == {
        "Chief": 1,
        "Ps": 1,
        "Worker": 2,
    }
    assert replicas["Chief"]["template"] == replicas["Ps"]["template"]
    (container,) = replicas["Worker"]["template"]["spec"]["containers"]
    assert container["image"] == "training-user1"
    assert container["command"] == ["python", "/opt/training/train.py", "--steps", "100"]
    assert {"name": "BUCKET", "value": "user1"} in container["env"]
    read = parse.parse_job(job)
    assert [(r.role, r.count) for r in read.replica_specs] == [
        ("Chief", 1),
        ("PS", 1),
        ("Worker", 2),
    ]


def test_yaml_and_json_are_the_same_data(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)

    assert yaml.safe_load(run(*SEED.split(), "-o", "yaml")[1]) == json.loads(
        run(*SEED.split(), "-o", "json")[1]
    )


def test_the_template_embeds_the_current_program() -> None:
    text = embed.TEMPLATE.read_text()

    assert embed.embedded(text) == text, "run python examples/openshift/embed.py"


# Flags


def test_defaults_generated_values_and_other_types_are_put_in(run: Run, small: str) -> None:
    code, out, _ = run("process", "-f", small, "-p", "NAME=x")

    config, deployment = items(out)
    assert code == 0
    assert config["data"] | {"pin": ""} == {"size": "3", "day": "2024-01-02", "pin": ""}
    assert len(config["data"]["pin"]) == 4
    assert config["data"]["pin"].isdigit()
    assert deployment["spec"]["replicas"] == 3


def test_parameters_may_stand_as_plain_words(run: Run, small: str) -> None:
    assert items(run("process", "--local", "-f", small, "NAME=x=y")[1])[0]["metadata"] == {
        "name": "x=y"
    }


def test_a_parameter_file_gives_the_values_that_the_command_line_lacks(
    run: Run, small: str, tmp_path: Path
) -> None:
    values = tmp_path / "values.env"
    values.write_text('# sizes\n\nNAME=ignored\nexport SIZE=5\nPIN="a\\nb # c"\n')

    code, out, err = run("process", "-f", small, "-p", "NAME=x", "--param-file", str(values))

    config, deployment = items(out)
    assert code == 0
    assert "NAME is already given" in err
    assert config["metadata"]["name"] == "x"
    assert config["data"]["pin"] == "a\nb # c"
    assert deployment["spec"]["replicas"] == 5


def test_labels_of_the_command_line_are_added_and_replace_the_templates_own(
    run: Run, small: str
) -> None:
    with Path(small).open("a") as file:
        file.write("labels: {b: from the template, c: '3'}\n")
    out = run("process", "-f", small, "-p", "NAME=x", "-l", "a=1, b=2")[1]

    labels = {"a": "1", "b": "2", "c": "3"}
    assert [item["metadata"]["labels"] for item in items(out)] == [labels, labels]


def test_the_parameters_are_listed_without_processing(run: Run, small: str) -> None:
    code, out, _ = run("process", "-f", small, "--parameters")

    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        ["NAME", "DESCRIPTION", "GENERATOR", "VALUE"],
        ["NAME", "What", "it", "is", "called"],
        ["SIZE", "3"],
        ["PIN", "expression", "[0-9]{4}"],
    ]


def test_names_alone_are_printed_on_request(run: Run, small: str) -> None:
    assert run("process", "-f", small, "-p", "NAME=x", "-o", "name")[1].split() == [
        "configmap/x",
        "deployment.apps/x",
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "required and not given: NAME"),
        (["-p", "NAM=x"], "no such parameter: NAM; did you mean NAME?"),
        (["-p", "NAME"], "NAME: not KEY=VALUE"),
        (["-p", "=x"], "=x: not KEY=VALUE"),
        (["-p", "NAME=x", "-p", "NAME=y"], "NAME is given more than once"),
        (["-p", "NAME=x", "mytemplate"], "mytemplate: not KEY=VALUE"),
        (["-p", "NAME=\udcff"], "NAME is not UTF-8"),
        (["--param-file", "/nowhere"], "/nowhere: No such file"),
        (["-o", "xml"], "xml"),
        (["--parm", "NAME=x"], "--param"),
    ],
)
def test_a_wrong_line_prints_one_sentence_and_no_objects(
    run: Run, small: str, words: list[str], says: str
) -> None:
    code, out, err = run("process", "-f", small, *words)

    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert says in err


def test_unknown_parameters_are_skipped_on_request(run: Run, small: str) -> None:
    line = ["process", "-f", small, "-p", "NAME=x", "-p", "OTHER=y"]

    assert run(*line)[0] == 2
    assert run(*line, "--ignore-unknown-parameters")[0] == 0


def test_a_manifest_that_is_not_a_template_is_refused(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("kind: TFJob\napiVersion: kubeflow.org/v1\n")

    code, _, err = run("process", "-f", str(path))

    assert code == 2
    assert "not a template: kind is 'TFJob'" in err
    assert "arena apply -f" in err


# The program that the template ships


def test_the_shipped_program_trains_logs_and_exports(seed_line: str, tmp_path: Path) -> None:
    """Chief, worker and parameter server as processes, with the ConfigMap's files and no other."""
    program = unpacked(seed_line, tmp_path)
    addresses = {role: [f"127.0.0.1:{free_port()}"] for role in ("chief", "ps", "worker")}

    outputs = trained(program, addresses, MODELS=str(tmp_path / "models"))

    folder = tmp_path / "models" / "user1" / "training-distributed-user1"
    for role in ("chief", "worker"):
        assert "trained: loss" in outputs[role]
        steps = [json.loads(line) for line in open_text(folder / "logs" / f"{role}-0.jsonl")]
        assert [row["step"] for row in steps] == [1, 10, 20, 30]
        assert steps[-1]["loss"] < steps[0]["loss"]
    assert [path.name for path in (folder / "export").iterdir()] == ["1"]
    with np.load(folder / "export" / "1" / "model.npz") as model:
        assert np.abs(model["weights"]).sum() > 0
    assert "exported" in outputs["chief"]
    assert "exported" not in outputs["worker"]


def test_with_an_s3_endpoint_the_chief_also_uploads(seed_line: str, tmp_path: Path) -> None:
    program = unpacked(seed_line, tmp_path)
    with Bucket() as bucket:
        trained(
            program,
            {"chief": [f"127.0.0.1:{free_port()}"]},
            MODELS=str(tmp_path / "models"),
            S3_ENDPOINT=bucket.url,
            AWS_ACCESS_KEY_ID="me",
            AWS_SECRET_ACCESS_KEY="secret",
        )

    exported = tmp_path / "models" / "user1" / "training-distributed-user1" / "export" / "1"
    assert bucket.received == {
        "/user1/training-distributed-user1/1/model.npz": (exported / "model.npz").read_bytes()
    }


def test_requests_are_signed_as_amazon_documents_it() -> None:
    """The `GET Bucket Lifecycle` example of Amazon's description of signature version 4."""
    headers = s3.signed(
        "GET",
        "https://examplebucket.s3.amazonaws.com/?lifecycle=",
        b"",
        ("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        "us-east-1",
        datetime(2013, 5, 24, tzinfo=UTC),
    )

    assert headers["Authorization"].endswith(
        "SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
        "Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
    )


def unpacked(processed: str, folder: Path) -> Path:
    """The program as a pod sees it: the files of the ConfigMap in one folder."""
    program = folder / "program"
    program.mkdir()
    for name, text in items(processed)[1]["data"].items():
        (program / name).write_text(text)
    return program / "train.py"


def trained(program: Path, addresses: dict[str, list[str]], **env: str) -> dict[str, str]:
    """Run one process per role to its end and return their outputs."""
    started = {}
    for role in addresses:
        config = {"cluster": addresses, "task": {"type": role, "index": 0}}
        own = {"TF_CONFIG": json.dumps(config), "BUCKET": "user1", **env}
        own["JOB_NAME"] = "training-distributed-user1"
        started[role] = subprocess.Popen(
            [sys.executable, program, "--steps", "30"],
            env={"PATH": os.environ["PATH"], **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    outputs = {role: process.communicate(timeout=60)[0] for role, process in started.items()}
    assert {role: process.returncode for role, process in started.items()} == dict.fromkeys(
        started, 0
    ), outputs
    return outputs


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def open_text(path: Path) -> list[str]:
    return path.read_text().splitlines()


class Bucket:
    """An S3 server that stores the objects of requests that `me` has signed."""

    def __init__(self) -> None:
        self.received: dict[str, bytes] = {}
        received = self.received

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                signed = "Credential=me/" in self.headers["Authorization"]
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if signed:
                    received[self.path] = body
                self.send_response(200 if signed else 403)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Bucket:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
