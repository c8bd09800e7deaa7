"""Digests of code and settings: what a computed file depends on, without its wording.

A digest is taken from syntax trees, so comments, docstrings and layout do not count.  It covers one
function and everything of this package that the function can reach.
"""

from __future__ import annotations

import ast
import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

PACKAGE = "rcdrs"
ROOT = Path(__file__).parents[1]


def settings_digest(values: Any) -> str:
    """Of plain values: the order of keys does not count."""
    return _short(json.dumps(values, sort_keys=True))


@cache
def code_digest(function: str, module: str = "rcdrs.experiments.synthetic.stages") -> str:
    """Of a function, the functions of its module that it uses, and the modules it imports from."""
    tree = _tree(module)
    definitions = {node.name: node for node in tree.body if isinstance(node, _DEFINITIONS)}
    if function not in definitions:
        raise ValueError(f"{module} defines no {function!r}.")
    imported = _imported_names(module)
    parts, modules, waiting = [], set(), [function]
    seen = set(waiting)
    while waiting:
        node = definitions[waiting.pop()]
        parts.append(ast.dump(node))
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        modules |= {imported[name] for name in names & imported.keys()}
        new = (names & definitions.keys()) - seen
        seen |= new
        waiting += sorted(new)
    constants = [
        ast.dump(node) for node in tree.body if isinstance(node, (ast.Assign, ast.AnnAssign))
    ]
    whole = [_text(name) for name in sorted(_reachable(modules))]
    return _short("\n".join(sorted(parts) + constants + whole))


_DEFINITIONS = (ast.FunctionDef, ast.ClassDef)


@cache
def _tree(module: str) -> ast.Module:
    """The syntax tree of a module, without docstrings."""
    tree = ast.parse(_file(module).read_text())
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, *_DEFINITIONS)) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree


@cache
def _text(module: str) -> str:
    return ast.dump(_tree(module))


def _file(module: str) -> Path:
    path = ROOT.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def _imported_names(of: str) -> dict[str, str]:
    """Each name that stands for something of this package, with the module it comes from."""
    names = {}
    for node in ast.walk(_tree(of)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                module = inner if _file(inner).exists() else str(node.module)
                names[alias.asname or alias.name] = module
    return names


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
