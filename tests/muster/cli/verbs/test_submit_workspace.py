"""Where a job of the local cluster runs, as `arena submit --dry-run` prints it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from muster.client.home import Home
from muster.jobs.build.flags import BY_TYPE
from tests.muster.cli.submit_dry_run import BARE, DryRun, Machine

PROGRAMS = "/run/muster/bin"


@pytest.fixture
def machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Machine:
    """A home directory and a project in it, outside of any environment."""
    home, project = tmp_path / "me", tmp_path / "me" / "project"
    project.mkdir(parents=True)
    machine = Machine(home, capsys, monkeypatch)
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "muster"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "LD_LIBRARY_PATH"):
        monkeypatch.delenv(name, raising=False)
    enter(machine, project)
    return machine


def enter(machine: Machine, folder: Path) -> None:
    machine.monkeypatch.chdir(folder)
    machine.monkeypatch.setenv("PWD", str(folder))


def environment(folder: Path) -> Path:
    """An environment whose `python3` is a file of its own."""
    (folder / "bin").mkdir(parents=True)
    for name in ("python3", "torchrun"):
        (folder / "bin" / name).symlink_to(sys.executable)
    return folder


def write_kubeconfig(file: Path) -> None:
    file.write_text(
        "{clusters: [{name: c, cluster: {server: 'https://192.0.2.1'}}], users: [],"
        " contexts: [{name: c, context: {cluster: c}}], current-context: c}"
    )


def kubernetes(machine: Machine) -> None:
    """Use a cluster that is not this machine."""
    write_kubeconfig(machine.home / "kubeconfig")
    machine.monkeypatch.setenv("KUBECONFIG", str(machine.home / "kubeconfig"))


def dry(machine: Machine, *words: str) -> DryRun:
    return machine.dry("tf", "--name=j", "--workers=2", *words, "python t.py")


def refused(machine: Machine, *words: str) -> str:
    code, _, err = machine.run("submit", "tf", "--name=j", *words, "python t.py", "--dry-run")
    assert code == 2, err
    return err


def mounts(built: DryRun) -> dict[str, bool]:
    """The mounted directories of this machine, and whether they are writable."""
    paths = {
        row["name"]: row["hostPath"]["path"]
        for row in built.at("pod:Worker/volumes")
        if "hostPath" in row
    }
    return {
        paths[row["name"]]: not row.get("readOnly", False)
        for row in built.at("main:Worker/volumeMounts")
        if row["name"] in paths and row["mountPath"] == paths[row["name"]]
    }


def variable(built: DryRun, name: str) -> str | None:
    value: str | None = built.at(f"main:Worker/env/{name}/value")
    return value


@pytest.mark.parametrize("type_", BY_TYPE)
def test_every_kind_of_job_runs_here_with_the_home_directory(machine: Machine, type_: str) -> None:
    built = machine.dry(type_, "--name=j", "--workers=2", "python t.py")

    role = BARE[type_]
    assert built.at(f"main:{role}/workingDir") == str(machine.home / "project")
    assert built.at(f"pod:{role}/volumes/workspace-0/hostPath/path") == str(machine.home)
    assert built.at(f"main:{role}/volumeMounts/workspace-0/mountPath") == str(machine.home)
    assert built.at(f"main:{role}/image") == "localhost/this-machine"
    assert built.at(f"main:{role}/imagePullPolicy") == "Never"


def test_a_directory_outside_of_the_home_is_mounted_beside_it(
    machine: Machine, tmp_path: Path
) -> None:
    folder = tmp_path / "my data, ünd $(more)"
    folder.mkdir()
    enter(machine, folder)

    built = dry(machine)

    assert built.at("main:Worker/workingDir") == str(folder)
    assert mounts(built) == {str(machine.home): True, str(folder): True}


def test_a_directory_above_the_home_is_mounted_alone(machine: Machine, tmp_path: Path) -> None:
    enter(machine, tmp_path)

    assert mounts(dry(machine)) == {str(tmp_path): True}


def test_a_link_to_a_directory_keeps_its_name_and_is_mounted(
    machine: Machine, tmp_path: Path
) -> None:
    (tmp_path / "disk").mkdir()
    link = machine.home / "link"
    link.symlink_to(tmp_path / "disk")
    enter(machine, link)

    built = dry(machine)

    assert built.at("main:Worker/workingDir") == str(link)
    assert mounts(built) == {str(machine.home): True, str(link): True}


def test_a_stale_pwd_is_ignored(machine: Machine) -> None:
    machine.monkeypatch.setenv("PWD", "/usr")

    assert dry(machine).at("main:Worker/workingDir") == str(machine.home / "project")


def test_the_root_directory_is_not_mounted_and_a_line_says_so(machine: Machine) -> None:
    enter(machine, Path("/"))

    code, out, err = machine.run("submit", "jax", "--name=j", "python t.py", "--dry-run")

    assert code == 0
    assert "workingDir: /\n" in out
    assert "path: /\n" not in out
    assert "files written there are discarded" in err


def test_a_user_without_a_home_gets_the_current_directory(machine: Machine) -> None:
    machine.monkeypatch.setenv("HOME", "/nonexistent")

    assert mounts(dry(machine)) == {str(machine.home / "project"): True}


def test_another_working_directory_may_be_relative_and_must_exist(machine: Machine) -> None:
    (machine.home / "project" / "sub").mkdir()

    built = dry(machine, "--working-dir=sub")
    assert built.at("main:Worker/workingDir") == str(machine.home / "project" / "sub")

    err = refused(machine, "--working-dir=/nosuch/dir")
    assert "--working-dir /nosuch/dir: there is no such directory on this machine" in err
    assert "mkdir -p /nosuch/dir" in err


def test_a_volume_or_the_files_of_an_image_may_provide_the_working_directory(
    machine: Machine,
) -> None:
    built = dry(machine, "--working-dir=/sets/a", "--data-dir=/usr:/sets")
    assert built.at("main:Worker/workingDir") == "/sets/a"

    (Home.of_user().images / "bench:1" / "opt" / "bench").mkdir(parents=True)
    built = dry(machine, "--working-dir=/opt/bench", "--image=bench:1")
    assert built.at("main:Worker/workingDir") == "/opt/bench"


def test_a_directory_of_the_clusters_state_or_of_credentials_is_refused(machine: Machine) -> None:
    for folder in (Home.of_user().root / "data", machine.home / ".kube"):
        folder.mkdir(parents=True)
        enter(machine, folder)
        assert "which pods do not see" in refused(machine)


def test_a_deleted_directory_is_refused(machine: Machine) -> None:
    gone = machine.home / "gone"
    gone.mkdir()
    enter(machine, gone)
    gone.rmdir()

    assert "the current directory was deleted" in refused(machine)
    assert dry(machine, f"--working-dir={machine.home}").at("main:Worker/workingDir")


def test_a_name_that_cannot_be_mounted_is_refused_unless_the_home_contains_it(
    machine: Machine, tmp_path: Path
) -> None:
    for parent in (machine.home, tmp_path):
        (parent / "a:b").mkdir()
    enter(machine, machine.home / "a:b")
    assert mounts(dry(machine)) == {str(machine.home): True}

    enter(machine, tmp_path / "a:b")
    assert "its name contains ':'" in refused(machine)


def test_the_active_environment_comes_first_and_is_mounted_if_pods_would_not_see_it(
    machine: Machine, tmp_path: Path
) -> None:
    folder = environment(tmp_path / "venv")  # pytest's directory is below /tmp
    machine.monkeypatch.setenv("VIRTUAL_ENV", str(folder))

    built = dry(machine)

    assert variable(built, "PATH") == f"{folder}/bin:/usr/bin:/bin:{PROGRAMS}"
    assert variable(built, "MUSTER_PYTHON") == f"{folder}/bin/python3"
    assert variable(built, "VIRTUAL_ENV") == str(folder)
    assert mounts(built) == {str(machine.home): True, str(folder): False}


def test_an_environment_in_path_is_used_in_the_order_of_path(machine: Machine) -> None:
    folder = environment(machine.home / "conda")
    machine.monkeypatch.setenv("CONDA_PREFIX", str(folder))
    machine.monkeypatch.setenv("PATH", f"/usr/bin:{folder}/bin")

    built = dry(machine)

    assert variable(built, "PATH") == f"/usr/bin:{folder}/bin:{PROGRAMS}"
    assert mounts(built) == {str(machine.home): True}


@pytest.mark.parametrize("spelling", ["env", "env/bin/python3"])
def test_python_names_an_environment_or_an_interpreter(machine: Machine, spelling: str) -> None:
    folder = environment(machine.home / "project" / "env")
    machine.monkeypatch.setenv("VIRTUAL_ENV", "/other")

    built = dry(machine, f"--python={spelling}")

    assert variable(built, "MUSTER_PYTHON") == f"{folder}/bin/python3"
    assert variable(built, "PATH") == f"{PROGRAMS}:{folder}/bin:/usr/bin:/bin"
    assert variable(built, "VIRTUAL_ENV") is None


def test_a_python_that_does_not_exist_is_refused(machine: Machine) -> None:
    assert "there is no such interpreter on this machine" in refused(machine, "--python=nosuch")
    assert "there is no such interpreter on this machine" in refused(machine, "--python=.")


def test_variables_of_the_user_win_over_those_of_the_environment(machine: Machine) -> None:
    machine.monkeypatch.setenv("PYTHONPATH", "src:$(HOME)")

    built = dry(machine, "--env=PATH=/opt/bin")

    assert variable(built, "PATH") == "/opt/bin"
    assert variable(built, "PYTHONPATH") == "src:$$(HOME)"
    assert variable(built, "HOME") == str(machine.home)


@pytest.mark.parametrize(
    "flags", [("--isolated",), ("--sync-mode=git", "--sync-source=https://x/p.git")]
)
def test_isolated_jobs_and_jobs_that_fetch_code_get_no_directories_of_the_user(
    machine: Machine, flags: tuple[str, ...]
) -> None:
    built = dry(machine, *flags)

    assert built.at("main:Worker/workingDir") == "/root"
    assert mounts(built) == {}
    assert variable(built, "PATH") is None

    built = dry(machine, *flags, f"--python={sys.executable}")
    assert variable(built, "MUSTER_PYTHON") == sys.executable
    assert variable(built, "HOME") is None
    assert str(machine.home) not in mounts(built)


def test_an_isolated_job_is_told_which_files_it_does_not_see(machine: Machine) -> None:
    Path("train.py").write_text("")
    words = ("submit", "tf", "--name=j", "--isolated", "--dry-run")

    _, _, err = machine.run(*words, "python train.py --lr 1")
    assert err.startswith("the job does not see train.py of this directory, because it is isolated")
    for more in (
        ("python other.py",),
        (f"--data-dir={Path.cwd()}:/root", "python train.py"),
        (f"--working-dir={Path.cwd()}", "python train.py"),
    ):
        assert "does not see" not in machine.run(*words, *more)[2]


def test_a_cluster_that_was_started_isolated_makes_every_job_isolated(machine: Machine) -> None:
    home = Home.of_user()
    with home.held():
        write_kubeconfig(home.kubeconfig)
        home.write_status(url="https://127.0.0.1:1", isolated=True)

        assert mounts(dry(machine)) == {}


def test_a_data_directory_must_exist_and_may_be_relative(machine: Machine) -> None:
    err = refused(machine, "--data-dir=/nosuch:/data")
    assert "--data-dir /nosuch: there is no such directory on this machine" in err
    assert "mkdir -p /nosuch" in err

    (machine.home / "set").mkdir()
    built = dry(machine, "--data-dir=~/set:/data", "--data-dir=../set")
    sources = [built.at(f"pod:Worker/volumes/training-data-{n}/hostPath/path") for n in (0, 1)]
    assert sources == [str(machine.home / "set")] * 2


def test_a_data_directory_replaces_the_users_own_at_its_path(machine: Machine) -> None:
    built = dry(machine, f"--data-dir=/usr:{machine.home}")

    paths = [row["mountPath"] for row in built.at("main:Worker/volumeMounts")]
    assert paths.count(str(machine.home)) == 1
    assert built.at("pod:Worker/volumes/workspace-0") is None


def test_logs_below_the_current_directory_are_written_there_and_shown_by_tensorboard(
    machine: Machine,
) -> None:
    built = dry(machine, "--tensorboard", "--logdir=runs/1")

    logs = str(machine.home / "project" / "runs" / "1")
    board = "Deployment/spec/template/spec"
    assert built.at("main:Worker/volumeMounts/training-logs-volume") is None
    assert built.at(f"{board}/volumes/training-logs-volume/hostPath/path") == logs
    assert built.at(f"{board}/volumes/workspace-0") is None


def test_tensorboard_is_the_users_own_and_else_the_one_of_muster(machine: Machine) -> None:
    built = dry(machine, "--tensorboard")

    container = built.at("Deployment/spec/template/spec/containers/tensorboard")
    variables = {row["name"]: row["value"] for row in container["env"]}
    job = {row["name"]: row["value"] for row in built.at("main:Worker/env")}
    assert variables["PATH"] == f"{job['PATH']}:/run/muster/last"
    assert "HOME" not in variables


def test_a_config_file_at_its_own_path_does_not_hide_the_files_beside_it(machine: Machine) -> None:
    Path("app.conf").write_text("a")

    built = dry(machine, "--config-file=app.conf", "--config-file=app.conf:/etc/app/app.conf")

    paths = [row["mountPath"] for row in built.at("main:Worker/volumeMounts")]
    assert "/etc/app" in paths
    assert str(machine.home / "project") not in paths


def test_on_kubernetes_nothing_is_added_and_a_local_file_is_pointed_out(machine: Machine) -> None:
    kubernetes(machine)
    Path("train.py").write_text("")

    words = ("submit", "jax", "--name=j", "--image=i", "python train.py --lr 1", "--dry-run")
    code, out, err = machine.run(*words)
    assert code == 0
    assert "workingDir: /root\n" in out
    assert "hostPath" not in out
    assert "MUSTER_PYTHON" not in out
    assert "train.py" in err
    assert "--sync-mode" in err

    _, _, err = machine.run(*words[:-2], "python other.py", "--dry-run")
    assert "--sync-mode" not in err
    git = ("--sync-mode=git", "--sync-source=https://x/p.git")
    assert "only if the image" not in machine.run(*words, *git)[2]


def test_on_kubernetes_an_image_is_required(machine: Machine) -> None:
    kubernetes(machine)

    err = refused(machine)

    assert "--image or --worker-image must be set" in err
    assert "only the local cluster needs no image" in err


def test_a_model_directory_is_relative_to_the_working_directory(machine: Machine) -> None:
    annotation = "job/metadata/annotations/muster.dev~model-dir"

    expected = str(machine.home / "project" / "out" / "models")
    assert dry(machine, "--model-dir=out/models").at(annotation) == expected
    assert dry(machine, "--model-dir=~/m").at(annotation) == str(machine.home / "m")

    code, _, err = machine.run(
        "submit", "tf", "--name=x", "--dry-run=client", "--model-dir=/srv/m", "true"
    )
    assert code == 2
    assert "--model-dir /srv/m is not in a volume of the job" in err
