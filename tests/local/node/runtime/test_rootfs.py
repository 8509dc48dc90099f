"""The planned file system of a container, on an imagined host."""

from __future__ import annotations

from typing import Any

from muster.local.node.runtime.rootfs import Mount, RootfsRules, plan_rootfs

HOST: dict[str, Any] = {
    "bin": "-> usr/bin",
    "usr": {"bin": {"python3": ""}, "share": {"doc": {}}},
    "etc": {"hosts": "", "passwd": ""},
    "var": {"tmp": {}, "run": "-> /run", "lib": {}},
    "tmp": {"secret": "", "venv": {"bin": {}}, "muster": {"db": ""}},
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


class Imagined:
    """A host made of dictionaries: a dict is a directory, `-> x` a link, other text a file."""

    def _at(self, path: str) -> Any:
        here: Any = HOST
        for part in filter(None, path.split("/")):
            if not isinstance(here, dict) or part not in here:
                return None
            here = here[part]
        return here

    def kind(self, path: str) -> str:
        here = self._at(path)
        if here is None:
            return ""
        return "dir" if isinstance(here, dict) else "link" if here.startswith("->") else "file"

    def entries(self, path: str) -> list[str]:
        here = self._at(path)
        return sorted(here) if isinstance(here, dict) else []

    def target(self, path: str) -> str:
        return str(self._at(path)).removeprefix("-> ")


RULES = RootfsRules(home="/root", hidden=("/root/.muster", "/root/.kube"))


def steps(
    *mounts: Mount, rules: RootfsRules = RULES, layers: tuple[str, ...] = ()
) -> list[list[Any]]:
    return plan_rootfs(rules, mounts, layers, Imagined())


def at(found: list[list[Any]], path: str) -> list[str]:
    """What is done at a path, by name."""
    where = {"bind": 2}
    return [step[0] for step in found if step[where.get(step[0], 1)] == path]


def test_directories_of_the_host_are_bound_read_only_and_links_stay_links() -> None:
    found = steps()

    assert at(found, "/usr") == ["host"]
    assert ["link", "/bin", "usr/bin"] in found


def test_temporary_directories_are_fresh() -> None:
    found = steps()

    assert ["dir", "/tmp", 0o1777] in found
    assert not [step for step in found if "/tmp/secret" in step]
    assert at(found, "/var") == ["host"]
    assert at(found, "/var/tmp") == ["disk"]


def test_the_home_directory_is_writable_with_the_hosts_entries_in_it() -> None:
    found = steps()

    assert at(found, "/root") == ["dir"]
    assert at(found, "/root/code") == ["host"]


def test_the_clusters_state_credentials_and_caches_are_not_in_the_home_directory() -> None:
    found = steps()

    assert at(found, "/root/.kube") == at(found, "/root/.muster") == []
    assert at(found, "/root/.cache") == ["dir"]
    assert at(found, "/root/.cache/pip") == []


def test_state_elsewhere_is_covered() -> None:
    found = steps(rules=RootfsRules(home="/root", hidden=("/data/muster",)))

    assert at(found, "/data") == ["host"]
    assert at(found, "/data/muster") == ["hide"]


def test_state_in_a_fresh_directory_is_simply_not_there() -> None:
    found = steps(rules=RootfsRules(home="/root", hidden=("/tmp/muster",)))

    assert at(found, "/tmp/muster") == []


def test_an_interpreter_in_a_fresh_directory_is_seen_and_nothing_beside_it() -> None:
    found = steps(rules=RootfsRules(home="/root", visible=("/tmp/venv", "/usr/bin")))

    assert ["bind", "/tmp/venv", "/tmp/venv", True] in found
    assert at(found, "/tmp/secret") == at(found, "/usr/bin") == []


def test_a_volume_at_a_new_path_of_the_root_needs_nothing_of_the_host() -> None:
    found = steps(Mount("/pods/u/volumes/logs", "/training_logs"))

    assert ["bind", "/pods/u/volumes/logs", "/training_logs", False] in found


def test_a_volume_over_an_existing_directory_is_bound_over_the_bound_parent() -> None:
    found = steps(Mount("/v", "/data/set", read_only=True))

    assert at(found, "/data") == ["host"]
    assert ["bind", "/v", "/data/set", True] in found


def test_a_directory_without_the_entry_is_rebuilt_with_its_other_entries() -> None:
    found = steps(Mount("/v", "/usr/share/mine"))

    assert at(found, "/usr") == ["host"]
    assert at(found, "/usr/share") == ["disk"]
    assert at(found, "/usr/share/doc") == ["host"]
    assert at(found, "/usr/share/mine") == ["bind"]


def test_a_mount_path_through_a_link_of_the_host_lands_where_the_link_points() -> None:
    found = steps(Mount("/v", "/var/run/secrets/token"))

    assert ["bind", "/v", "/run/secrets/token", False] in found


def test_a_volume_over_the_home_directory_is_all_there_is_of_it() -> None:
    found = [step for step in steps(Mount("/v", "/root", True)) if "/root" in str(step)]

    assert found == [["bind", "/v", "/root", True]]


def test_a_single_file_may_be_mounted_over_one() -> None:
    found = steps(Mount("/pods/u/hosts", "/etc/hosts"))

    assert at(found, "/etc") == ["host"]
    assert at(found, "/etc/hosts") == ["bind"]


def test_mounts_inside_mounts_come_after_them() -> None:
    found = steps(Mount("/b", "/data/set/inner"), Mount("/a", "/data/set"))

    order = [step[2] for step in found if step[0] == "bind" and step[2].startswith("/data")]
    assert order == ["/data/set", "/data/set/inner"]


def test_a_layer_lies_over_the_host_entry_by_entry() -> None:
    found = steps(layers=("/layer",))

    assert ["bind", "/layer/app", "/app", True] in found
    assert ["bind", "/layer/usr/share/new", "/usr/share/new", True] in found
    assert at(found, "/usr/share/doc") == ["host"]


def test_pods_have_only_harmless_devices_and_accelerators() -> None:
    found = steps()

    assert at(found, "/dev/null") == at(found, "/dev/nvidia0") == ["bind"]
    assert at(found, "/dev/sda") == []
    assert at(found, "/proc") == ["proc"]


def test_a_directory_that_is_not_the_users_to_enter_is_fresh() -> None:
    planned = steps(rules=RootfsRules(home="/data", fresh=("/root",)))

    assert [step for step in planned if step[1].startswith("/root")] == [["dir", "/root", 0o755]]
