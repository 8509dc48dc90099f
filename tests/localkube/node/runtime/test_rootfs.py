"""The planned file system of a container, on an imagined host."""

from __future__ import annotations

from typing import Any

from localkube.node.runtime.rootfs import HostTree, Mount, RootfsRules, plan_rootfs

HOST: dict[str, Any] = {
    "bin": "-> usr/bin",
    "usr": {"bin": {"python3": ""}, "share": {"doc": {}}},
    "etc": {"hosts": "", "passwd": ""},
    "var": {"tmp": {}, "run": "-> /run", "lib": {}},
    "tmp": {
        "secret": "",
        "link": "-> /data",
        "venv": {"bin": {}},
        "muster": {"db": "", "venv": {}},
    },
    "run": {},
    "root": {
        ".kube": {"config": ""},
        ".muster": {},
        ".cache": {"pip": {}},
        "code": {"train.py": ""},
    },
    "data": {"muster": {"db": ""}, "set": {}},
    "dev": {"null": "", "nvidia0": "", "sda": ""},
    "proc": {},
    "sys": {},
    "v": {},
    "layer": {"app": {"main.py": ""}, "usr": {"share": {"new": ""}}},
}


class Imagined(HostTree):
    """A host made of dictionaries: a dict is a directory, `-> x` a link, other text a file."""

    def _at(self, path: str) -> Any:
        entry: Any = HOST
        for part in filter(None, path.split("/")):
            if not isinstance(entry, dict) or part not in entry:
                return None
            entry = entry[part]
        return entry

    def kind(self, path: str) -> str:
        entry = self._at(path)
        if entry is None:
            return ""
        return "dir" if isinstance(entry, dict) else "link" if entry.startswith("->") else "file"

    def entries(self, path: str) -> list[str]:
        entry = self._at(path)
        return sorted(entry) if isinstance(entry, dict) else []

    def target(self, path: str) -> str:
        return str(self._at(path)).removeprefix("-> ")


RULES = RootfsRules(home="/root", hidden=("/root/.muster", "/root/.kube"))


def steps(
    *mounts: Mount, rules: RootfsRules = RULES, layers: tuple[str, ...] = ()
) -> list[list[Any]]:
    return plan_rootfs(rules, mounts, layers, Imagined())


def at(plan: list[list[Any]], path: str) -> list[str]:
    """The operations at a path."""
    path_index = {"bind": 2, "changeable": 2}
    return [step[0] for step in plan if step[path_index.get(step[0], 1)] == path]


def test_directories_of_the_host_are_bound_read_only_and_links_stay_links() -> None:
    plan = steps()

    assert at(plan, "/usr") == ["host"]
    assert ["link", "/bin", "usr/bin"] in plan


def test_temporary_directories_are_fresh() -> None:
    plan = steps()

    assert ["dir", "/tmp", 0o1777] in plan
    assert not [step for step in plan if "/tmp/secret" in step]
    assert at(plan, "/var") == ["host"]
    assert at(plan, "/var/tmp") == ["disk"]


def test_the_home_directory_is_writable_with_the_hosts_entries_in_it() -> None:
    plan = steps()

    assert at(plan, "/root") == ["dir"]
    assert at(plan, "/root/code") == ["host"]


def test_the_clusters_state_credentials_and_caches_are_not_in_the_home_directory() -> None:
    plan = steps()

    assert at(plan, "/root/.kube") == at(plan, "/root/.muster") == []
    assert at(plan, "/root/.cache") == ["dir"]
    assert at(plan, "/root/.cache/pip") == []


def test_hidden_state_outside_the_home_is_covered() -> None:
    plan = steps(rules=RootfsRules(home="/root", hidden=("/data/muster",)))

    assert at(plan, "/data") == ["host"]
    assert at(plan, "/data/muster") == ["hide"]


def test_hidden_state_in_a_fresh_directory_needs_no_step() -> None:
    plan = steps(rules=RootfsRules(home="/root", hidden=("/tmp/muster",)))

    assert at(plan, "/tmp/muster") == []


def test_a_visible_path_in_a_fresh_directory_is_bound_without_its_siblings() -> None:
    plan = steps(rules=RootfsRules(home="/root", visible=("/tmp/venv", "/usr/bin")))

    assert ["bind", "/tmp/venv", "/tmp/venv", True] in plan
    assert at(plan, "/tmp/secret") == at(plan, "/usr/bin") == []


def test_a_volume_is_bound_at_a_path_that_the_host_does_not_have() -> None:
    plan = steps(Mount("/pods/u/volumes/logs", "/training_logs"))

    assert ["bind", "/pods/u/volumes/logs", "/training_logs", False] in plan


def test_a_volume_covers_an_existing_directory() -> None:
    plan = steps(Mount("/v", "/data/set", read_only=True))

    assert at(plan, "/data") == ["host"]
    assert ["bind", "/v", "/data/set", True] in plan


def test_a_directory_that_lacks_the_mount_point_is_rebuilt_with_its_entries() -> None:
    plan = steps(Mount("/v", "/usr/share/mine"))

    assert at(plan, "/usr") == ["host"]
    assert at(plan, "/usr/share") == ["disk"]
    assert at(plan, "/usr/share/doc") == ["host"]
    assert at(plan, "/usr/share/mine") == ["bind"]


def test_a_mount_path_follows_a_link_of_the_host() -> None:
    plan = steps(Mount("/v", "/var/run/secrets/token"))

    assert ["bind", "/v", "/run/secrets/token", False] in plan


def test_a_volume_over_the_home_directory_replaces_it() -> None:
    plan = [step for step in steps(Mount("/v", "/root", True)) if "/root" in str(step)]

    assert plan == [["bind", "/v", "/root", True]]


def test_a_file_can_be_mounted_over_a_file() -> None:
    plan = steps(Mount("/pods/u/hosts", "/etc/hosts"))

    assert at(plan, "/etc") == ["host"]
    assert at(plan, "/etc/hosts") == ["bind"]


def test_a_mount_inside_another_mount_comes_after_it() -> None:
    plan = steps(Mount("/b", "/data/set/inner"), Mount("/a", "/data/set"))

    order = [step[2] for step in plan if step[0] == "bind" and step[2].startswith("/data")]
    assert order == ["/data/set", "/data/set/inner"]


def test_a_layer_covers_the_host_entry_by_entry() -> None:
    plan = steps(layers=("/layer",))

    assert ["bind", "/layer/app", "/app", True] in plan
    assert ["bind", "/layer/usr/share/new", "/usr/share/new", True] in plan
    assert at(plan, "/usr/share/doc") == ["host"]


def test_pods_have_only_harmless_devices_and_accelerators() -> None:
    plan = steps()

    assert at(plan, "/dev/null") == at(plan, "/dev/nvidia0") == ["bind"]
    assert at(plan, "/dev/sda") == []
    assert at(plan, "/proc") == ["proc"]


def test_a_directory_that_the_user_may_not_enter_is_fresh() -> None:
    plan = steps(rules=RootfsRules(home="/data", fresh=("/root",)))

    assert [step for step in plan if step[1].startswith("/root")] == [["dir", "/root", 0o755]]


def test_an_open_directory_is_new_and_shows_the_entries_of_the_host() -> None:
    """`/root`, if the home is elsewhere."""
    rules = RootfsRules(home="/data", open=("/root",), hidden=("/root/.muster", "/root/.kube"))
    plan = steps(rules=rules)

    assert at(plan, "/root") == ["dir"]
    assert at(plan, "/root/code") == ["host"]
    assert at(plan, "/root/.kube") == at(plan, "/root/.muster") == []


def of_home(*more: Mount, rules: RootfsRules = RULES) -> list[list[Any]]:
    """The steps below /root with the home directory as a writable volume."""
    plan = steps(Mount("/root", "/root"), *more, rules=rules)
    return [step for step in plan if any(str(word).startswith("/root") for word in step[1:])]


def test_a_home_that_is_a_volume_is_the_real_one_without_state_and_credentials() -> None:
    assert of_home() == [
        ["bind", "/root", "/root", False],
        ["hide", "/root/.muster"],
        ["hide", "/root/.kube"],
    ]


def test_a_mount_point_that_the_home_lacks_does_not_make_it_private() -> None:
    plan = of_home(Mount("/v", "/root/data/set"), Mount("/v", "/root/code/new"))

    assert plan[0] == ["bind", "/root", "/root", False]
    assert {step[0] for step in plan} == {"bind", "hide"}
    assert ["bind", "/v", "/root/data/set", False] in plan


def test_state_in_a_temporary_directory_is_hidden_from_a_volume_around_it() -> None:
    plan = steps(Mount("/tmp", "/tmp"), rules=RootfsRules(home="/root", hidden=("/tmp/muster",)))

    assert at(plan, "/tmp") == ["bind"]
    assert at(plan, "/tmp/muster") == ["hide"]


def test_hidden_paths_are_hidden_wherever_a_volume_shows_them() -> None:
    plan = steps(Mount("/root", "/mnt/home"), Mount("/root/.kube", "/mnt/kube"))

    assert at(plan, "/mnt/home") == ["bind"]
    assert at(plan, "/mnt/home/.kube") == at(plan, "/mnt/home/.muster") == ["hide"]
    assert "bind" not in at(plan, "/mnt/kube")


def test_a_volume_of_files_may_be_mounted_at_a_hidden_path() -> None:
    plan = of_home(Mount("/v", "/root/.kube"))

    assert ["bind", "/v", "/root/.kube", False] in plan
    assert at(plan, "/root/.kube") == ["bind"]


def test_a_volume_inside_a_hidden_path_is_seen_and_its_siblings_are_not() -> None:
    logs = "/root/.muster/logs/job"
    plan = of_home(Mount(logs, logs))

    assert at(plan, "/root/.muster") == ["disk"]
    assert ["bind", logs, logs, False] in plan


def test_an_interpreter_inside_a_hidden_path_stays_visible_in_a_home_that_is_a_volume() -> None:
    rules = RootfsRules(home="/root", hidden=("/root/.cache",), visible=("/root/.cache/pip",))

    assert ["bind", "/root/.cache/pip", "/root/.cache/pip", True] in of_home(rules=rules)


def test_a_working_directory_in_a_temporary_directory_is_bound_alone() -> None:
    plan = steps(Mount("/tmp/venv", "/tmp/venv"))

    assert ["bind", "/tmp/venv", "/tmp/venv", False] in plan
    assert at(plan, "/tmp") == ["dir"]
    assert at(plan, "/tmp/secret") == []


def test_a_visible_directory_that_is_also_a_volume_is_writable() -> None:
    plan = steps(Mount("/tmp", "/tmp"), rules=RootfsRules(home="/root", visible=("/tmp/venv",)))

    assert at(plan, "/tmp/venv") == []


def test_an_empty_volume_over_the_home_needs_no_hidden_paths() -> None:
    plan = steps(Mount("/v", "/root"))

    assert [step for step in plan if "/root" in str(step)] == [["bind", "/v", "/root", False]]


def test_a_volume_at_a_link_in_a_temporary_directory_is_mounted_at_that_name() -> None:
    plan = steps(Mount("/data", "/tmp/link"))

    assert ["bind", "/data", "/tmp/link", False] in plan


def test_state_inside_a_visible_directory_is_hidden() -> None:
    rules = RootfsRules(
        home="/root",
        hidden=("/tmp/muster",),
        visible=("/tmp/muster/venv", "/tmp"),
    )

    plan = steps(rules=rules)

    assert at(plan, "/tmp") == ["host"]
    assert at(plan, "/tmp/muster") == ["disk"]
    assert ["bind", "/tmp/muster/venv", "/tmp/muster/venv", True] in plan
    hidden_alone = steps(rules=RootfsRules("/root", hidden=("/tmp/muster",), visible=("/tmp",)))
    assert at(hidden_alone, "/tmp/muster") == ["hide"]


CHANGEABLE = RootfsRules(home="/root", hidden=("/root/.muster",), changeable=("/root/code",))


def test_changes_of_a_changeable_directory_are_kept_elsewhere() -> None:
    plan = steps(rules=CHANGEABLE)

    assert at(plan, "/root/code") == ["changeable"]
    assert at(plan, "/root") == ["dir"]


def test_a_changeable_directory_inside_a_new_one_is_shown() -> None:
    rules = RootfsRules(home="/root", visible=("/tmp/venv",), changeable=("/tmp/venv",))

    assert at(steps(rules=rules), "/tmp/venv") == ["changeable"]


def test_in_a_volume_a_changeable_directory_is_the_real_one() -> None:
    plan = steps(Mount("/root", "/root"), rules=CHANGEABLE)
    read_only = steps(Mount("/root/code", "/root/code", read_only=True), rules=CHANGEABLE)

    assert at(plan, "/root") == ["bind"]
    assert at(plan, "/root/code") == []
    assert at(read_only, "/root/code") == ["bind"]


def test_a_changeable_directory_is_not_shown_where_a_volume_covers_it() -> None:
    plan = steps(Mount("/v", "/root"), rules=CHANGEABLE)

    assert at(plan, "/root/code") == []


def test_a_volume_is_mounted_in_a_changeable_directory() -> None:
    plan = steps(Mount("/v", "/root/code/data"), rules=CHANGEABLE)

    places = [step[2] for step in plan if step[0] in ("bind", "changeable")]
    assert places.index("/root/code") < places.index("/root/code/data")


def test_a_directory_near_hidden_state_is_not_changeable() -> None:
    around = RootfsRules(home="/root", hidden=("/data/muster",), changeable=("/data",))
    inside = RootfsRules(
        home="/root",
        hidden=("/tmp/muster",),
        visible=("/tmp/muster/venv",),
        changeable=("/tmp/muster/venv",),
    )

    assert "changeable" not in [step[0] for step in steps(rules=around)]
    assert at(steps(rules=inside), "/tmp/muster/venv") == ["bind"]
