"""Values that the command line of `arena submit` leaves open: charts, config file, quoting."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, strategies as st

from kubekit.errors import MusterError
from localkube.node.env_and_files import expand
from muster.cli.show.table import json_or_yaml
from muster.client import config_file
from muster.client.submit.submit import register_in_mlflow
from muster.jobs.build import code_sync, flags, job_manifest
from muster.jobs.build.flags import TensorFlow
from muster.jobs.build.pod_templates import escape_literal, escape_value
from tests.muster.cli.submit_dry_run import Machine
from tests.repository import ROOT

TF = ("tf", "--name=j", "--image=i", "--workers=2")
GANG = "job/metadata/annotations/muster.dev~gang"


@pytest.fixture
def machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Machine:
    return Machine(tmp_path, capsys, monkeypatch)


def chart(machine: Machine, text: str, type_: str = "tfjob") -> None:
    file = machine.home / "charts" / type_ / "values.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(text)


def test_without_flag_chart_and_config_the_cluster_decides_about_the_gang(
    machine: Machine,
) -> None:
    built = machine.dry(*TF, "x")

    assert built.at(GANG) == "auto"
    assert built.at("job/spec/runPolicy/schedulingPolicy") is None


def test_the_config_file_turns_gangs_on_and_a_flag_turns_one_off(machine: Machine) -> None:
    config_file.write("gang", "true")

    assert machine.dry(*TF, "x").at(GANG) == "true"
    assert machine.dry(*TF, "--gang=false", "x").at(GANG) == "false"


def test_the_charts_values_turn_gangs_on_for_their_kind_only(machine: Machine) -> None:
    chart(machine, "enableGangScheduler: true\ngangSchedulerName: kube-batchd\n")

    built = machine.dry(*TF, "x")
    assert built.at(GANG) == "true"
    assert built.at("job/spec/runPolicy/schedulingPolicy/minAvailable") == 2
    assert built.at("pod:Worker/schedulerName") is None
    assert machine.dry("jax", *TF[1:], "x").at(GANG) == "auto"


def test_the_charts_values_take_precedence_over_the_config_file(machine: Machine) -> None:
    config_file.write("gang", "true")
    chart(machine, "enableGangScheduler: false\n")

    assert machine.dry(*TF, "x").at(GANG) == "false"


@pytest.mark.parametrize("text", ["enableGangScheduler: maybe\n", "a: [\n"])
def test_invalid_values_are_an_error_that_names_the_file(machine: Machine, text: str) -> None:
    chart(machine, text)
    code, _, err = machine.run("submit", *TF, "--dry-run", "x")

    assert code == 2
    assert "charts/tfjob/values.yaml" in err


def test_the_config_file_gives_pull_secrets_and_the_order_of_roles(machine: Machine) -> None:
    config_file.write("imagePullSecrets", "a, b")
    config_file.write("tfjob_role_sequence", "PS,Worker")

    built = machine.dry(*TF, "x")
    assert built.at("pod:Worker/imagePullSecrets") == [{"name": "a"}, {"name": "b"}]
    assert built.at("job/metadata/annotations/job-role-sequence") == "PS,Worker"
    built = machine.dry(*TF, "--image-pull-secret=c", "x")
    assert built.at("pod:Worker/imagePullSecrets") == [{"name": "c"}]


QUOTED = [
    '{"a": ["b, c", "d"]}',
    "x=y=z",
    "a # b",
    "two\nlines",
    "",
    "'\"\\",
    "- x: y",
    "é ✓",
    "$X",
]


@pytest.mark.parametrize("text", QUOTED)
def test_variables_and_the_command_stay_exactly_as_written(machine: Machine, text: str) -> None:
    built = machine.dry(*TF, "-e", f"K={text}", f"echo {text}", "-l", "a=b")

    assert built.at("main:Worker/env/K/value") == text
    assert built.at("main:Worker/command") == ["sh", "-c", f"echo {text}"]


@given(st.text(alphabet="$() aX"))
@example("$($$)")
@example("$($$")
@example("$$($$)$$")
def test_dollars_reach_the_container_as_they_were_written(text: str) -> None:
    assert expand(escape_value(text), {"other": "1"}) == text


@given(st.text(alphabet="$() aX"))
@example("$(X)")
@example("$$(X)$$$(a)$")
@example("$(X$(X))")
def test_a_command_reaches_the_shell_as_it_was_written(text: str) -> None:
    assert expand(escape_literal(text), {"X": "1", "a": "2", "": "3", "$(X": "4"}) == text


def test_a_variable_is_put_into_another_and_not_into_the_command(machine: Machine) -> None:
    built = machine.dry(*TF, "-e", "hostname=z", "-e", "K=$(hostname)", "echo $(hostname) $HOME")

    assert built.at("main:Worker/env/K/value") == "$(hostname)"
    assert built.at("main:Worker/command")[2] == "echo $$(hostname) $HOME"


def test_each_word_of_an_unquoted_command_stays_one_argument(machine: Machine) -> None:
    built = machine.dry(*TF, "python", "-c", 'print("a  b")', "--lr", "0.1")

    assert built.at("main:Worker/command")[2] == """exec python -c 'print("a  b")' --lr 0.1"""


def test_a_quoted_command_is_a_line_for_the_shell_and_flags_may_follow(machine: Machine) -> None:
    built = machine.dry(*TF, "cd $HOME && python t.py", "--workers=3", "--env", "A=b c")

    assert built.at("main:Worker/command")[2] == "cd $HOME && python t.py"
    assert built.at("Worker/replicas") == 3
    assert {"name": "A", "value": "b c"} in built.at("main:Worker/env")


def test_one_word_is_a_line_for_the_shell(machine: Machine) -> None:
    assert machine.dry(*TF, "pwd;date").at("main:Worker/command")[2] == "pwd;date"


@pytest.mark.parametrize("kind", ["tf", "tensorflow", "tfjob", "mpi", "mj", "pytorch", "jax"])
def test_the_flags_of_an_unquoted_command_are_its_own(machine: Machine, kind: str) -> None:
    line = ("submit", kind, "--name=j", "--image", "i", "--dry-run", "-e", "A=b")
    code, out, err = machine.run(
        *line, "python", "t.py", "--lr", "0.1", "-x", "--workers=7", "--gang", "--debug"
    )

    assert code == 0
    assert "python t.py --lr 0.1 -x --workers=7 --gang --debug" in out
    assert "minAvailable" not in out
    assert err.splitlines() == [
        "--workers=7, --gang: passed to the training command; "
        "write them before the command to set them for the job"
    ]


def test_words_after_two_dashes_are_the_command_without_a_note(machine: Machine) -> None:
    line = ("submit", "tf", "--name=j", "--image=i", "--dry-run", "--", "--odd", "--workers=2")
    code, out, err = machine.run(*line)

    assert (code, err) == (0, "")
    assert "--odd --workers=2" in out


def test_a_missing_name_behind_the_command_is_noted(machine: Machine) -> None:
    code, _, err = machine.run("submit", "tf", "python", "t.py", "--name=j")

    assert code == 2
    assert err.startswith("--name=j: passed to the training command; write it before the command")


def test_a_flag_of_the_command_behind_its_quotes_gets_a_hint(machine: Machine) -> None:
    code, _, err = machine.run("submit", "tf", "--name=j", "python t.py", "--lr", "0.1")

    assert code == 2
    assert "'--lr'" in err
    assert "belongs inside its quotes" in err


def test_shell_syntax_in_an_unquoted_command_is_noted(machine: Machine) -> None:
    line = ("submit", "tf", "--name=j", "--image=i", "--dry-run", "python", "t.py", "$HOME", "&&")
    code, out, err = machine.run(*line)

    assert code == 0
    assert "python t.py '$HOME' '&&'" in out
    assert err.startswith("$HOME, &&: passed to python literally; put the whole command in quotes")


@pytest.mark.parametrize(
    ("source", "project"),
    [
        ("https://github.com/tensorflow/benchmarks.git", "benchmarks"),
        ("https://host/a/b.c.git/", "b.c"),
        ("git@host:team/p.git", "p"),
        ("host:p.git", "p"),
        ("file:///srv/repo", "repo"),
        ("/srv/repo/", "repo"),
        ("/srv/bare.git", "bare"),
    ],
)
def test_code_is_put_below_the_last_part_of_its_source(source: str, project: str) -> None:
    assert code_sync.project(source) == project


def test_a_relative_path_starts_at_the_current_directory(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine.home / "proj" / ".git").mkdir(parents=True)
    monkeypatch.chdir(machine.home / "proj")
    built = machine.dry(*TF, "--sync-mode=git", "--sync-source=.", "x")

    assert built.at("init:Worker/env/GIT_SYNC_DEST/value") == "proj"
    source = built.at("pod:Worker/volumes/code-source/hostPath/path")
    assert source == str((machine.home / "proj").resolve())
    assert built.at("init:Worker/volumeMounts/code-source/readOnly") is True


@pytest.mark.parametrize(
    ("mode", "source", "message"),
    [
        ("git", "./missing", "no such directory"),
        ("git", "./plain", "is not a git repository"),
        ("rsync", "./missing", "no such directory"),
    ],
)
def test_a_path_without_code_is_refused_at_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, mode: str, source: str, message: str
) -> None:
    monkeypatch.chdir(machine.home)
    (machine.home / "plain").mkdir()
    code, _, err = machine.run(
        "submit", *TF, f"--sync-mode={mode}", f"--sync-source={source}", "--dry-run", "x"
    )

    assert code == 2
    assert message in err


def test_a_path_of_this_machine_is_refused_on_another_cluster() -> None:
    args = flags.Jax(
        name="j", command=("x",), image="i", sync_mode="git", sync_source="file:///srv/repo"
    )
    assert job_manifest.bundle(args, flags.Site(local=True)).job
    with pytest.raises(MusterError, match="is a path on this machine"):
        job_manifest.bundle(args, flags.Site(local=False))


def board(**given: Any) -> dict[str, Any]:
    """The pod of TensorBoard for a TensorFlow job on a real cluster."""
    base: dict[str, Any] = {"name": "j", "command": ("x",), "image": "i", "workers": 2}
    base["tensorboard"] = True
    bundle = job_manifest.bundle(TensorFlow(**(base | given)))
    pod: dict[str, Any] = bundle.companions[-1]["spec"]["template"]["spec"]
    return pod


def test_tensorboard_is_ready_once_its_port_is_open_and_its_log_explains_its_failure() -> None:
    (container,) = board()["containers"]

    assert container["readinessProbe"]["tcpSocket"] == {"port": 6006}
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_tensorboard_goes_where_the_replica_is_that_writes_the_logs() -> None:
    def beside(**flags: Any) -> dict[str, str]:
        term = board(**flags)["affinity"]["podAffinity"]
        (only,) = term["requiredDuringSchedulingIgnoredDuringExecution"]
        labels: dict[str, str] = only["labelSelector"]["matchLabels"]
        return {key.partition("/")[2]: value for key, value in labels.items()}

    assert beside() == {"job-name": "j", "replica-type": "worker", "replica-index": "0"}
    assert beside(chief=True)["replica-type"] == "chief"
    assert beside(gang=True, ps=1)["replica-type"] == "worker"
    assert beside(data_dir=("/nfs",), logdir="/nfs/logs")["replica-type"] == "worker"


@pytest.mark.parametrize("logdir", ["/data", "/data/run1", "hdfs://host/logs"])
def test_tensorboard_may_be_anywhere_when_the_logs_are_on_a_shared_volume(logdir: str) -> None:
    pod = board(data=("claim:/data",), logdir=logdir)

    assert "affinity" not in pod
    assert pod["containers"][0]["command"][2] == logdir
    assert pod["volumes"][0]["persistentVolumeClaim"] == {"claimName": "claim"}


def test_a_directory_whose_path_only_begins_like_a_claims_is_not_on_it() -> None:
    pod = board(data=("claim:/data",), logdir="/database")

    assert "affinity" in pod
    assert [volume["name"] for volume in pod["volumes"]] == ["training-logs-volume"]


class Registry(BaseHTTPRequestHandler):
    """The part of MLflow that a registration needs; records its requests."""

    requests: list[tuple[str, Any]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.requests.append((self.path, body))
        known = self.path.endswith("registered-models/create")
        answer = (
            {"error_code": "RESOURCE_ALREADY_EXISTS"}
            if known
            else {"model_version": {"version": "7"}}
        )
        self.send_response(400 if known else 200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, Any]]]:
    Registry.requests = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{server.server_port}")
        yield Registry.requests
        server.shutdown()
        thread.join()


def test_a_model_is_registered_as_a_new_version(registry: list[tuple[str, Any]]) -> None:
    version = register_in_mlflow("m", "pvc://models/m")

    assert [path for path, _ in registry] == [
        "/api/2.0/mlflow/registered-models/create",
        "/api/2.0/mlflow/model-versions/create",
    ]
    assert registry[1][1]["source"] == "pvc://models/m"
    assert version == "7"


def test_without_an_mlflow_server_a_model_name_is_refused_before_anything_is_created(
    machine: Machine,
) -> None:
    code, _, err = machine.run(
        "submit", *TF, "--model-name=m", "--model-source=pvc://a", "--dry-run", "x"
    )

    assert code == 2
    assert "MLFLOW_TRACKING_URI" in err


@given(st.text())
def test_printed_yaml_reads_back_as_the_same_data(text: str) -> None:
    value = {"text": text, "list": [text, {"x": text}]}

    assert yaml.safe_load(json_or_yaml(value, "yaml")) == value


PAGE = ROOT / "docs" / "submitting.md"


def test_the_example_of_the_page_about_submitting_is_a_job(machine: Machine) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    file = machine.home / "job.yaml"
    file.write_text(example)
    code, out, err = machine.run("submit", "-f", str(file), "--dry-run", "-o", "json")

    assert code == 0, err
    _, job = json.loads(out)["items"]
    assert job["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] == 3
    main = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    assert {"name": "NOTE", "value": "a, b"} in main["env"]
    assert {"name": "datasets", "mountPath": "/data"} in main["volumeMounts"]


def test_every_flag_that_the_page_names_exists(machine: Machine) -> None:
    named = set(re.findall(r"`(?:arena submit )?(--[a-z-]+)", PAGE.read_text()))
    pages = [machine.run("submit", *kind, "--help")[1] for kind in ((), ("tf",), ("pytorch",))]

    assert len(named) > 15
    assert [flag for flag in sorted(named) if flag not in "".join(pages)] == []


def test_an_existing_directory_is_a_source_even_without_a_dot(machine: Machine) -> None:
    machine.monkeypatch.chdir(machine.home)
    (machine.home / "proj").mkdir()
    words = ("--name=j", "--image=i", "--sync-mode=rsync")

    built = machine.dry("tf", *words, "--sync-source=proj", "x")
    variables = {row["name"]: row.get("value") for row in built.at("init:Chief/env")}
    assert variables["SYNC_SOURCE"] == str(machine.home / "proj")

    built = machine.dry("tf", *words, "--sync-source=other", "x")
    variables = {row["name"]: row.get("value") for row in built.at("init:Chief/env")}
    assert variables["SYNC_SOURCE"] == "other"


def test_wait_without_a_job_is_an_error(machine: Machine) -> None:
    code, out, err = machine.run("submit", "--wait")

    assert (code, out) == (2, "")
    assert "there is no job to submit" in err


def test_a_changed_value_that_is_broken_yaml_is_refused(machine: Machine) -> None:
    file = machine.home / "job.yaml"
    file.write_text("kind: tf\nname: j\nimage: i\ncommand: x\n")
    words = ("submit", "-f", str(file), "--dry-run", "--set")

    code, _, err = machine.run(*words, "command=[a")
    assert code == 2
    assert "--set 'command=[a' is not YAML" in err
    assert machine.run(*words, 'command=echo "a: b: c"')[0] == 0


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("--workerImag=a", "--worker-image"),
        ("--workerimage=a", "--worker-image"),
        ("--wokers=2", "--workers"),
        ("--gpu=2", "--gpus"),
    ],
)
def test_the_suggested_flag_is_the_current_spelling(
    machine: Machine, wrong: str, right: str
) -> None:
    code, _, err = machine.run("submit", "tf", "--name=j", "--image=i", wrong, "x")

    assert code == 2
    assert err.splitlines()[0].replace("'", "").endswith(f"Did you mean {right}?")


def test_an_unknown_flag_unlike_all_others_gets_no_suggestion(machine: Machine) -> None:
    _, _, err = machine.run("submit", "tf", "--name=j", "--image=i", "--zzz=1", "x")

    assert "mean" not in err
    assert "Possible" not in err
