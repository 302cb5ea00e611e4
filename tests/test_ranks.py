"""The order of the package: who may import whom, read from the source of every file."""

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import allyouneed

PACKAGE = Path(allyouneed.__file__).parent
# From low to high; a file imports only what stands lower, or in its own folder.
RANKS = (
    {"errors", "atomic"},
    {"config", "text"},
    {"run_file", "weights", "shortlist"},
    {"manifest"},
    {"rows", "device"},
    {"models"},
    {"data", "model", "kernels", "visualization"},
    {"checkpoint"},
    {"inference"},
    {"translator"},
    {"evaluation"},
    {"training", "interop", "serving"},
    {"cli"},
    {"__main__"},
)
RANK_OF = {unit: rank for rank, units in enumerate(RANKS) for unit in units}
FILES = {
    ".".join(("allyouneed", *path.relative_to(PACKAGE).with_suffix("").parts)): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
# The package's own `__init__` names what users import, and loads it only when they do.
RANKED = [module for module in FILES if module != "allyouneed.__init__"]
TALKING_TO_THE_TERMINAL = {
    "print", "input", "sys.argv", "sys.exit", "os.environ", "os.getenv", "os.path.expandvars",
    "logging.basicConfig",
}  # fmt: skip
# Where the user's cache is, which nobody should have to pass along.
READING_THE_ENVIRONMENT = {"allyouneed.inference.compilation"}


def unit(module: str) -> str:
    """The file or folder right under the package that a module belongs to."""
    return module.split(".")[1]


def imports(tree: ast.AST, *, at_start: bool = False) -> Iterator[str]:
    """The modules a file names in its imports, or only those it needs when it is imported."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            # `from package import name` may name a module too.
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif not (at_start and is_left_for_later(node)):
            yield from imports(node, at_start=at_start)


def is_left_for_later(node: ast.AST) -> bool:
    """Whether importing a file passes this part of it by."""
    for_types_only = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    return for_types_only or isinstance(node, ast.FunctionDef)


def parsed(module: str) -> ast.Module:
    return ast.parse(FILES[module].read_text(encoding="utf-8"))


def own_files(names: Iterable[str]) -> set[str]:
    """The files of this package that importing these names runs, the folders' `__init__` too."""
    found = set()
    for name in names:
        parts = name.split(".")
        for end in range(2, len(parts) + 1):
            path = ".".join(parts[:end])
            found |= {path, f"{path}.__init__"} & FILES.keys()
    return found


def loaded_with(module: str) -> set[str]:
    """The packages that importing a module loads, directly or through files of this package."""
    names: set[str] = set()
    waiting, seen = [module], {module}
    while waiting:
        found = set(imports(parsed(waiting.pop()), at_start=True))
        names |= found
        new = own_files(found) - seen
        seen |= new
        waiting += new
    return {name.split(".")[0] for name in names}


@pytest.mark.parametrize("module", RANKED)
def test_a_file_imports_only_from_lower_ranks_or_its_own_folder(module: str) -> None:
    assert unit(module) in RANK_OF, f"give {unit(module)} a place in RANKS"

    for imported in own_files(imports(parsed(module))):
        if unit(imported) != unit(module):
            assert RANK_OF[unit(imported)] < RANK_OF[unit(module)], f"{module} imports {imported}"


@pytest.mark.parametrize("module", RANKED)
def test_imports_are_written_out_in_full(module: str) -> None:
    nodes = ast.walk(parsed(module))

    assert not any(isinstance(node, ast.ImportFrom) and node.level > 0 for node in nodes)


@pytest.mark.parametrize(
    "module", [module for module in RANKED if unit(module) in {"text", "visualization"}]
)
def test_text_and_pictures_never_import_torch(module: str) -> None:
    assert "torch" not in {name.split(".")[0] for name in imports(parsed(module))}
    assert "torch" not in loaded_with(module)


@pytest.mark.parametrize("module", [module for module in RANKED if unit(module) == "cli"])
def test_no_command_loads_torch_before_it_is_called(module: str) -> None:
    assert "torch" not in loaded_with(module)


def test_help_is_shown_without_loading_torch() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "allyouneed", "--help"]

    shown = subprocess.run(command, capture_output=True, text=True, check=True)

    assert shown.stdout.startswith("Usage")
    assert "allyouneed.cli.main" in shown.stderr  # where importtime reports what it loaded
    assert "torch" not in shown.stderr


@pytest.mark.parametrize(
    "module", [module for module in RANKED if unit(module) not in {"cli", "__main__"}]
)
def test_only_the_command_line_prints_exits_or_reads_the_environment(module: str) -> None:
    mentioned = {
        ast.unparse(node)
        for node in ast.walk(parsed(module))
        if isinstance(node, ast.Name | ast.Attribute)
    }

    allowed = {"os.environ"} if module in READING_THE_ENVIRONMENT else set()
    assert mentioned & TALKING_TO_THE_TERMINAL == allowed


def test_every_file_is_named_after_what_it_does() -> None:
    vague = {"utils", "util", "common", "helpers", "helper", "misc"}

    assert not [module for module in FILES if vague & set(module.split("."))]
