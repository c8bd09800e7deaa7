"""Digests of code and settings: what a computed file depends on, without its wording.

A digest is taken from syntax trees, so comments, docstrings, layout, the order of imports, and the
texts of errors and progress bars do not count.  It covers some functions, all that they use of
their own modules, and every module of this package that they import from.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections import deque
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from rcdrs.peers.registry import OURS, PEERS

PACKAGE = "rcdrs"
ROOT = Path(__file__).parents[1]
ENGINE = "rcdrs.experiments.engine"
#: How what a stage returns becomes a file.
WRITERS = {"evaluate": ("write_rows", "write_details"), "time_methods": ("write_rows",)}
WRITERS |= {"trace": ("write_rows",), "shift": ("write_rows",)}
#: They say what is asked for, which is in the settings, and how files are written and read.
PLAIN = ("rcdrs.experiments.base", "rcdrs.experiments.settings", "rcdrs.files")


def settings_digest(values: Any) -> str:
    """Of plain values: the order of keys does not count."""
    return _short(json.dumps(values, sort_keys=True))


@cache
def stage_digest(stage: str, experiment: str) -> str:
    """Of a function of the engine, with what the experiment brings to it."""
    functions = [(ENGINE, name) for name in (stage, *WRITERS.get(stage, ()))]
    return code_digest(*functions, hooks=f"rcdrs.experiments.{experiment}.stages")


@cache
def peers_digest() -> str:
    """Of what measures peers, and of every one: they are imported by name."""
    functions = [("measure", "measure"), ("worker", "main")]
    functions += [(place.module, place.name) for place in (*PEERS.values(), OURS)]
    return code_digest(*((f"rcdrs.peers.{module}", name) for module, name in functions))


@cache
def code_digest(*functions: tuple[str, str], hooks: str = "") -> str:
    """Of functions (module, name), all that they use of their modules, and the modules they import.

    What a function takes by name from any object counts as a use of what `hooks`, a module, calls
    by that name.
    """
    parts, modules, waiting = [], set(), list(functions)
    seen = set(waiting)
    while waiting:
        module, name = waiting.pop()
        bound, imported = _bindings(module), _imported_names(module)
        if name not in bound:
            raise ValueError(f"{module} defines no {name!r}.")
        node = bound[name]
        parts.append(_dump(node))
        used = {name} | {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        modules |= {imported[n] for n in used & imported.keys()}
        new = {(module, n) for n in used & bound.keys()}
        if hooks and module == ENGINE:
            taken = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
            new |= {(hooks, n) for n in taken & _bindings(hooks).keys()}
        waiting += sorted(new - seen)
        seen |= new
    whole = [_dump(_tree(name)) for name in sorted(_reachable(modules))]
    return _short("\n".join(sorted(parts) + whole))


_DEFINITIONS = (ast.FunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)


class _Plain(ast.NodeTransformer):
    """Without docstrings and the texts of errors and progress bars; imports one by one, sorted."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, (ast.Module, *_DEFINITIONS)) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        return super().generic_visit(node)

    def visit_Module(self, node: ast.Module) -> ast.AST:
        self.generic_visit(node)
        imports = [part for part in node.body if isinstance(part, _IMPORTS)]
        alone = [type(i)(**vars(i) | {"names": [alias]}) for i in imports for alias in i.names]
        rest = [part for part in node.body if part not in imports]
        node.body = [*sorted(alone, key=_dump), *rest]
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.Raise:
        for part in ast.walk(node):
            if isinstance(part, ast.Call):
                texts = (ast.JoinedStr, ast.Constant)
                part.args = [ast.Constant("") if isinstance(a, texts) else a for a in part.args]
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == "tqdm":
            node.keywords = []
        return self.generic_visit(node)


@cache
def _tree(module: str) -> ast.Module:
    return _parsed(_file(module).read_bytes())


@cache
def _parsed(code: bytes) -> ast.Module:
    tree: ast.Module = _Plain().visit(ast.parse(code))
    return tree


@cache
def _dump(node: ast.AST) -> str:
    """As `ast.dump` of Python 3.11 writes it, whichever Python runs this: later ones leave out
    empty lists, know parameters of types, and take the text of an f-string apart otherwise."""
    parts = []
    for name in node._fields:
        value: Any = getattr(node, name, None)
        absent = value is None and getattr(type(node), name, ...) is None
        if not absent and (name != "type_params" or value):
            if isinstance(node, ast.JoinedStr):
                value = _joined(value)
            parts.append(f"{name}={_dumped(value)}")
    return f"{type(node).__name__}({', '.join(parts)})"


def _dumped(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_dumped, value))}]"
    return _dump(value) if isinstance(value, ast.AST) else repr(value)


def _joined(parts: list[ast.expr]) -> list[ast.expr]:
    """Without empty texts between the values of an f-string, and with neighbours as one."""
    found: list[ast.expr] = []
    for part in parts:
        last = found[-1] if found else None
        if isinstance(part, ast.Constant) and isinstance(last, ast.Constant):
            found[-1] = ast.Constant(f"{last.value!s}{part.value!s}", last.kind)
        elif not isinstance(part, ast.Constant) or part.value:
            found.append(part)
    return found


@cache
def _bindings(module: str) -> dict[str, ast.stmt]:
    """What a module imports, defines or assigns, by name."""
    found: dict[str, ast.stmt] = {}
    for node in _tree(module).body:
        if isinstance(node, _DEFINITIONS):
            found[node.name] = node
        elif isinstance(node, _IMPORTS):
            found[node.names[0].asname or node.names[0].name] = node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
            found |= dict.fromkeys(names, node)
    return found


def _file(module: str) -> Path:
    path = ROOT.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def _imported_names(of: str) -> dict[str, str]:
    """Each name that stands for something of this package, with the module it comes from."""
    names = {}
    for node in _statements(_tree(of)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                module = inner if _file(inner).exists() else str(node.module)
                if module not in PLAIN and not module.endswith(".experiment"):
                    names[alias.asname or alias.name] = module
    return names


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """In the order of `ast.walk`, which takes ten times as long to look into expressions too."""
    waiting = deque[ast.AST]([tree])
    while waiting:
        node = waiting.popleft()
        yield node
        for name in ("body", "handlers", "orelse", "finalbody", "cases"):
            parts = getattr(node, name, ())
            waiting.extend(parts if isinstance(parts, list) else ())


def _reachable(modules: set[str]) -> set[str]:
    """The modules and all that they import, of this package."""
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += _imported_names(module).values()
    return found


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
