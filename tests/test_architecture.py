"""Rules of the repository: sizes, names, docstrings, cheap start-up, documents that are true."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.repository import ROOT

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

PACKAGES = ("kubekit", "localkube", "muster")
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
MIN_FILE, MAX_FILE, MAX_FUNCTION = 60, 600, 60
MODULES_OF_LIST = 67
"""Modules of Muster that `arena list` imports: a new one must be worth its time."""
HEAVY = {"aiohttp", "asyncio", "numpy", "jinja2", "rich"}
SLOW = {
    "cryptography",
    "email",
    "hashlib",
    "http",
    "httptools",
    "json",
    "logging",
    "random",
    "subprocess",
    "yaml",
}
"""Modules that take milliseconds to import, which a read-only verb must not spend."""


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_no_module_is_longer_than_the_cap() -> None:
    long = {relative(p): n for p in SOURCES if (n := len(p.read_text().splitlines())) > MAX_FILE}

    assert long == {}


def test_no_module_is_a_fragment_of_its_neighbour() -> None:
    """One with under 60 lines, or whose only importer is beside it, says why it is kept apart."""
    importers: dict[str, list[str]] = {module_name(path): [] for path in SOURCES}
    for path in SOURCES:
        for name in imported(ast.parse(path.read_text())) & importers.keys():
            importers[name].append(module_name(path))
    fragments = []
    for path in SOURCES:
        if path.stem in {"__init__", "__main__"} or says_why_it_is_kept_apart(path):
            continue
        lines, users = len(path.read_text().splitlines()), importers[module_name(path)]
        beside = [user for user in users if package_of(user) == package_of(module_name(path))]
        if lines < MIN_FILE or (len(users) == 1 and beside):
            fragments.append(f"{relative(path)}: {lines} lines, imported by {users or 'nobody'}")

    assert fragments == []


def package_of(module: str) -> str:
    return module.rpartition(".")[0]


def imported(tree: ast.Module) -> set[str]:
    """What the module may have imported: modules, or names in modules."""
    names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def says_why_it_is_kept_apart(path: Path) -> bool:
    """In its docstring, or for all modules of a package in the package's."""
    docs = (
        ast.get_docstring(ast.parse(p.read_text())) for p in (path, path.parent / "__init__.py")
    )
    return any("Kept apart because" in " ".join((doc or "").split()) for doc in docs)


def test_no_function_is_longer_than_the_cap() -> None:
    long = {
        f"{relative(path)}:{node.lineno} {node.name}": lines
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > MAX_FUNCTION
    }

    assert long == {}


def test_every_module_says_what_it_is_for() -> None:
    mute = [relative(p) for p in SOURCES if not ast.get_docstring(ast.parse(p.read_text()))]

    assert mute == []


def test_no_module_is_called_utils_or_the_like() -> None:
    drawers = {"utils", "util", "helpers", "common", "base", "misc"}

    assert [relative(p) for p in SOURCES if p.stem in drawers] == []


def test_every_task_has_an_owner() -> None:
    """A task group, or an object that ends its tasks itself and says so: `# owner: …`."""
    orphans = [
        f"{relative(path)}:{number}"
        for path in SOURCES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r"(asyncio|loop)\.(create_task|ensure_future)\((?!.*# owner: )", line)
    ]

    assert orphans == []


def test_yaml_is_read_in_one_place() -> None:
    """PyYAML alone overflows the stack on nested text, which ends the process."""
    read = re.compile(r"\byaml\.(\w*load\w*|parse|scan|compose\w*)\(|from yaml import")
    readers = [relative(p) for p in SOURCES if read.search(p.read_text())]

    assert readers == ["src/kubekit/objects/yaml_reader.py"]


DIGITS_READ_BY_HAND = {
    "src/kubekit/objects/annotation_values.py": "its docstring",
    "src/localkube/node/probes.py": "three bytes, in which only ASCII counts",
    "src/localkube/node/runtime/pod_records.py": "names in the node's own folders",
    "src/localkube/node/standalone/linux/kernel.py": "names in /proc",
    "src/muster/client/logs/pod_log.py": "one byte, which is not read as a number",
    "src/muster/jobs/view/units.py": "18 characters that an expression found",
}


def test_numbers_in_text_are_read_in_one_place() -> None:
    """`int` raises for 5,000 digits, and `"²".isdigit()` is true: `read_integer` knows both."""
    by_hand = re.compile(r"\.is(?:digit|decimal|numeric)\b")
    readers = {relative(p) for p in SOURCES if by_hand.search(p.read_text())}

    assert readers == set(DIGITS_READ_BY_HAND)


def test_no_modules_import_each_other_in_a_circle() -> None:
    """At run time: neither imports of types nor those inside functions count."""
    modules = {module_name(path): path for path in SOURCES}
    graph = {name: set(imports_at_start(path, modules)) for name, path in modules.items()}
    while leaves := {name for name, used in graph.items() if not used & graph.keys()}:
        graph = {name: used for name, used in graph.items() if name not in leaves}
    while roots := graph.keys() - set().union(*graph.values()):
        graph = {name: used for name, used in graph.items() if name not in roots}

    assert graph == {}


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")


def imports_at_start(path: Path, modules: Container[str]) -> Iterator[str]:
    """The modules that this one imports when it is imported."""
    package = module_name(path).split(".")[: None if path.stem == "__init__" else -1]
    rest: list[ast.AST] = [ast.parse(path.read_text())]
    while rest:
        node = rest.pop()
        if isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            names = (f"{base}.{alias.name}" for alias in node.names)
            yield from (name if name in modules else base for name in names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            rest += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            rest += ast.iter_child_nodes(node)


def test_no_test_sleeps_to_wait() -> None:
    """Virtual time costs nothing. Elsewhere a sleep must say why it is no wait: `# pace: …`."""
    sleep = re.compile(r"\b(time|asyncio)\.sleep\((?!0\))")
    sleepers = [
        f"{relative(path)}:{number}"
        for path in TESTS
        if path.name != "waiting.py" and "looptime" not in (text := path.read_text())
        for number, line in enumerate(text.splitlines(), 1)
        if sleep.search(line) and "# pace: " not in line
    ]

    assert sleepers == []


@pytest.mark.parametrize("verb", ["list", "get", "logs", "delete"])
def test_quick_verbs_do_not_import_heavy_modules(verb: str) -> None:
    modules = f"sys, muster.cli.verbs.{verb}, kubekit.client.blocking_client"
    script = f"import {modules}; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    loaded = {name.partition(".")[0] for name in result.stdout.split()}
    assert loaded & (HEAVY | SLOW) == set()


def test_list_imports_few_modules() -> None:
    # Each module costs about a tenth of a millisecond, and most of them more than that.
    modules = "sys, muster.cli.verb_groups, muster.cli.verbs.list, kubekit.client.blocking_client"
    result = subprocess.run(
        [sys.executable, "-c", f"import {modules}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )

    loaded = set(result.stdout.split())
    own = {name for name in loaded if name.partition(".")[0] in PACKAGES}
    assert len(own) <= MODULES_OF_LIST, sorted(own)
    # For compressed responses, gangs, exec plugins and translations of click.
    rare = {"locale", "zlib", "muster.contract.pod_groups", "kubekit.client.auth.exec_plugin"}
    assert loaded & rare == set()


def test_help_does_not_even_import_click() -> None:
    script = "import sys, muster.cli.main as m; m.run('arena', ['--help']); print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    loaded = {name.partition(".")[0] for name in result.stdout.splitlines()[-1].split()}
    assert loaded & (HEAVY | {"click", "msgspec", "yaml"}) == set()


DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for place in (ROOT.glob("*.md"), (ROOT / "docs").rglob("*.md"), (ROOT / "src").rglob("*.md"))
    for path in place
)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_path_a_document_names_exists(document: str) -> None:
    text = (ROOT / document).read_text()
    named = set(
        re.findall(r"`((?:src|tests|docs|examples|benchmarks|deploy|scripts)/[\w./-]*)`", text)
    )

    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_the_codemap_names_every_package_and_room() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rooms = [*(ROOT / "src").glob("*/__init__.py"), *(ROOT / "src/muster").glob("*/__init__.py")]

    assert [p for r in rooms if f"`{(p := relative(r.parent))}/`" not in text] == []


def test_the_codemap_of_the_product_fits_on_a_page() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| `src/muster/")]

    assert len(rows) <= 26  # the row of the package, and 25 rooms


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = project["dependency-groups"].values()
    needed = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *(requirement for many in groups for requirement in many),
    ]
    names = {re.split(r"[<>=; ]", requirement)[0].lower() for requirement in needed}
    text = (ROOT / "docs/decisions/0001-libraries.md").read_text().lower()

    assert [name for name in sorted(names) if not re.search(rf"\b{name}\b", text)] == []


def test_the_walks_name_functions_that_exist() -> None:
    steps = re.findall(r"`([\w/]+\.py)`[\s,]*\(?((?:`\w+`(?:, )?)*)\)?", walks())
    missing = [
        f"{module} {name}"
        for module, names in steps
        for name in re.findall(r"\w+", names)
        if not re.search(rf"def {name}\(", (ROOT / "src" / module).read_text())
    ]

    assert len(steps) > 30
    assert missing == []


def walks() -> str:
    """The section of ARCHITECTURE.md that follows one gang and one submission."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    return text[text.index("## Two walks") : text.index("## Invariants")]
