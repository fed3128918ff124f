"""The shape of the house, checked: floors, cycles, sizes, names, plug-ins, and where code lies."""

import ast
import dataclasses
import graphlib
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest

from retrieval import plugins

CHECKOUT = Path(__file__).parents[1]
PACKAGES = ("retrieval", "envs", "agents")
FLOORS = {"retrieval": 0, "envs": 1, "agents": 2, "benchmarks": 3}
FILES = sorted(p for name in FLOORS for p in (CHECKOUT / name).rglob("*.py"))
COMMANDS = ("train.py", "eval.py")
PLUGIN_FOLDERS = (
    "retrieval.retrievers",
    "envs.datasets",
    "envs.rewards",
    "agents.algorithms",
    "agents.penalties",
    "agents.sampling",
    "agents.generation",
)
# A function without a home says that the nouns are wrong.
NO_NAMES = {"utils", "util", "common", "helpers", "helper", "core", "manager", "misc"}
# Only encoders compute with tensors; the engines that use them import them, not torch.
TORCH_ALLOWED = {"retrieval.encoders", "retrieval.cross_encoders"}


def module_name(path: Path) -> str:
    parts = path.relative_to(CHECKOUT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in FILES}


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def absolute(path: Path, node: ast.ImportFrom) -> str:
    """The module a `from ... import` names, relative dots resolved."""
    if not node.level:
        return node.module or ""
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package.pop()
    package = package[: len(package) - node.level + 1]
    return ".".join([*package, *(node.module.split(".") if node.module else [])])


def offenders(find: Callable[[Path], Collection[object]]) -> dict[str, Collection[object]]:
    """Module -> what is wrong with it; empty when all is well."""
    found = {name: find(path) for name, path in MODULES.items()}
    return {name: culprits for name, culprits in found.items() if culprits}


def heads(path: Path) -> set[str]:
    """The top-level packages a file imports."""
    return {target.split(".")[0] for target in imports(path)}


def imports(path: Path, deferred: bool = True) -> Iterator[str]:
    """Every module a file imports; with deferred=False only when it is itself imported."""
    nodes: list[ast.AST] = [tree(path)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = absolute(path, node)
            for alias in node.names:
                whole = f"{source}.{alias.name}"
                yield whole if whole in MODULES else source
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if deferred or not inside:
            nodes += ast.iter_child_nodes(node)


def test_the_list_of_modules_is_not_empty() -> None:
    assert {
        "retrieval.cache",
        "envs.search_env",
        "agents.trainer",
        "agents.algorithms.grpo",
    } <= set(MODULES)
    assert "agents.losses" in set(imports(MODULES["agents.algorithms.grpo"]))


class TestFloors:
    def test_imports_point_down(self) -> None:
        def above(path: Path) -> set[str]:
            own = FLOORS[module_name(path).split(".")[0]]
            return {head for head in heads(path) if FLOORS.get(head, -1) > own}

        assert not offenders(above)

    def test_no_code_imports_tests_or_commands(self) -> None:
        assert not offenders(lambda path: heads(path) & {"tests", "train", "eval"})

    def test_tensors_stay_upstairs(self) -> None:
        """No torch in envs, and in retrieval only where vectors are made."""

        def tensors(path: Path) -> set[str]:
            name = module_name(path)
            if name.split(".")[0] not in ("retrieval", "envs") or name in TORCH_ALLOWED:
                return set()
            return heads(path) & {"torch", "transformers", "peft", "sentence_transformers"}

        assert not offenders(tensors)

    def test_the_lower_floors_load_without_torch(self) -> None:
        code = (
            "import sys, envs, envs.search_env, envs.registration, retrieval.cache\n"
            "import retrieval.retrievers.dense, retrieval.retrievers.rerank\n"
            "sys.exit(any(m in sys.modules for m in ('torch', 'transformers', 'faiss')))"
        )
        subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, check=True)

    def test_no_module_imports_itself_in_a_circle(self) -> None:
        graph = {
            name: {t for t in imports(path, deferred=False) if t in MODULES and t != name}
            for name, path in MODULES.items()
        }
        assert len(list(graphlib.TopologicalSorter(graph).static_order())) == len(MODULES)


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def num_arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


class TestSizes:
    def test_a_file_has_at_most_300_lines(self) -> None:
        def lines(path: Path) -> list[int]:
            count = len(path.read_text(encoding="utf-8").splitlines())
            return [count] if count > 300 else []

        assert not offenders(lines)

    def test_a_function_has_at_most_50_lines(self) -> None:
        assert not offenders(
            lambda path: [n.name for n in functions(path) if n.end_lineno - n.lineno >= 50]
        )

    def test_a_function_has_at_most_6_arguments(self) -> None:
        assert not offenders(lambda path: [n.name for n in functions(path) if num_arguments(n) > 6])

    @pytest.mark.parametrize("name", COMMANDS)
    def test_a_command_holds_no_logic(self, name) -> None:
        """Arguments in, numbers out: no function, no class, 25 lines."""
        path = CHECKOUT / name
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 25
        kinds = (ast.FunctionDef, ast.ClassDef, ast.For, ast.While, ast.Try)
        assert not [node for node in ast.walk(tree(path)) if isinstance(node, kinds)]


class TestNames:
    def test_no_module_is_a_drawer_for_everything(self) -> None:
        words = {name: set(name.replace("_", ".").split(".")) for name in MODULES}
        assert not {name for name, parts in words.items() if parts & NO_NAMES}

    def test_the_agents_package_defines_nothing(self) -> None:
        """The OpenAI agents SDK also imports as `agents`: no name may be taken for one of its."""
        body = tree(CHECKOUT / "agents/__init__.py").body
        assert len(body) == 1 and isinstance(body[0], ast.Expr)

    def test_every_module_says_what_it_is(self) -> None:
        assert not offenders(lambda path: [] if ast.get_docstring(tree(path)) else ["silent"])

    @pytest.mark.parametrize("package", PACKAGES)
    def test_every_folder_is_a_package(self, package) -> None:
        folders = {path.parent for path in (CHECKOUT / package).rglob("*.py")}
        assert all((folder / "__init__.py").exists() for folder in folders)


@pytest.mark.parametrize("folder", PLUGIN_FOLDERS)
def test_a_plug_in_has_a_docstring_a_frozen_documented_config_and_an_entry_point(folder) -> None:
    for name in plugins.names(folder):
        module = plugins.load(folder, name)
        entries = [getattr(module, e) for e in plugins.entry_points(folder) if hasattr(module, e)]
        assert entries and all(entry.__doc__ for entry in entries), name
        assert module.__doc__ and module.Config.__doc__, name
        assert module.Config.__dataclass_params__.frozen, name
        fields = [field.name for field in dataclasses.fields(module.Config)]
        # A field that is inherited is documented where it comes from.
        texts = "".join(base.__doc__ or "" for base in module.Config.__mro__)
        assert all(f"{field}: " in texts for field in fields), name


class TestSafety:
    """Files and models are data: nothing runs what it reads."""

    def test_nothing_unpickles(self) -> None:
        modules = {"pickle", "cloudpickle", "dill", "shelve", "joblib", "marshal"}
        assert not offenders(lambda path: heads(path) & modules)

    def test_nothing_calls_what_runs_text_or_pickles(self) -> None:
        forbidden = {"eval", "exec", "torch.load", "os.system"}
        unsafe = {"UnsafeLoader", "FullLoader", "Loader", "CLoader", "unsafe_load", "full_load"}

        def found(path: Path) -> set[str]:
            nodes = list(ast.walk(tree(path)))
            called = {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}
            attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
            return called & forbidden | attributes & unsafe

        assert not offenders(found)

    def test_nothing_opts_into_running_foreign_code(self) -> None:
        opted = {"trust_remote_code", "allow_pickle", "shell"}

        def found(path: Path) -> list[str]:
            return [
                keyword.arg
                for node in ast.walk(tree(path))
                if isinstance(node, ast.Call)
                for keyword in node.keywords
                if keyword.arg in opted and ast.unparse(keyword.value) != "False"
            ]

        assert not offenders(found)


class TestWhereCodeLies:
    def test_the_packages_are_those_of_the_checkout_wherever_one_stands(self, tmp_path) -> None:
        """A script's own folder comes first: another `agents` in the working folder is not ours."""
        for package in PACKAGES:
            (tmp_path / package).mkdir()
            (tmp_path / package / "__init__.py").write_text("raise RuntimeError('not ours')")
        for name in COMMANDS:
            done = subprocess.run(
                [sys.executable, CHECKOUT / name, "--help"],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            assert "--config" in done.stdout

    @pytest.mark.parametrize("package", PACKAGES)
    def test_this_very_test_reads_the_checkout(self, package) -> None:
        module = __import__(package)
        assert Path(module.__file__).is_relative_to(CHECKOUT)
