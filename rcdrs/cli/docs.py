"""The reference of what users import, made from its docstrings."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

#: What public functions take or return, which users read but do not import: where it is.
RETURNED = {
    "CvxpyLayer": "rcdrs.modelling.cvxpy_layer",
    "FitReport": "rcdrs.training.fit",
    "Certificates": "rcdrs.solver.status",
    "Envelope": "rcdrs.controller.config",
    "Growth": "rcdrs.controller.config",
    "Ranges": "rcdrs.controller.config",
}
#: What the library alone uses of its public classes.
INTERNAL = {
    "ConicProgram": (
        "factored",
        "check_numbers",
        "affine",
        "gradient",
        "with_vectors",
        "with_affine",
    ),
    "DRSLayer": ("trace", "given", "action"),
    "SolverLayer": ("A", "affine", "run", "run_compiled", "options", "from_options", "describe"),
    "Solution": ("__init__", "look", "read", "single", "inner", "observation", "readout"),
    "State": ("of",),
    "CvxpyLayer": ("__init__", "rows", "columns", "flat", "out", "duals", "own"),
    "FitReport": ("__init__",),
    "Certificates": ("__init__",),
    "Cone": ("saves",),
    "Box": ("like",),
    "Product": ("stretches",),
}
#: Bases without a page: what a page says in their place.
BASES = {
    "SolverLayer": ("torch.nn.modules.module", "Module", "torch.nn.Module"),
    "SelfDual": ("rcdrs.cones.base", "Cone", "rcdrs.cones.Cone"),
}
#: What Python says of every named tuple.
TUPLES = ("Alias for field number", "Create new instance of")


def docs(options: argparse.Namespace) -> None:
    """One page a module, with a search; pdoc reads the docstrings."""
    try:
        import pdoc
    except ModuleNotFoundError as error:
        raise ValueError(
            "pdoc is not installed: `pip install -c envs/constraints.txt -e '.[test]'` brings it."
        ) from error
    google = pdoc.docstrings.google
    pdoc.docstrings.google = lambda docstring: google(headed(docstring))
    try:
        pdoc.render.configure(docformat="google", show_source=False, search=True)
        pages = {module.__name__: pdoc.doc.Module(module) for module in modules()}
        for page in pages.values():
            for member in page.members.values():
                tidy(member)
        written = {
            f"{name.replace('.', '/')}.html": pdoc.render.html_module(page, pages)
            for name, page in pages.items()
        }
        written["index.html"] = pdoc.render.html_index(pages)  # leads to the first page
        written["search.js"] = pdoc.render.search_index(pages)
    finally:
        pdoc.docstrings.google = google
    for name, text in written.items():
        path = options.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    print(f"wrote {options.out / 'index.html'}")


def modules() -> Iterator[ModuleType]:
    """Whose names are public, as pdoc reads them: it does not ask a module's `__getattr__`."""
    import rcdrs
    from rcdrs import cones

    page = ModuleType("rcdrs", rcdrs.__doc__)
    names = {name: getattr(rcdrs, name) for name in rcdrs.__all__}
    names |= {name: getattr(import_module(home), name) for name, home in RETURNED.items()}
    vars(page).update(names, __all__=list(names))
    yield page
    yield cones


def tidy(doc: Any) -> None:
    """Leave what a user calls, with what a base without a page brings to it."""
    if doc.kind == "function":
        doc.signature = portable(doc.signature)
    if doc.kind != "class":
        return
    if issubclass(doc.obj, tuple):  # names of types, which pdoc looks up where the page is
        doc.obj.__new__.__annotations__ = get_type_hints(doc.obj)
    lines = [base for base in doc.obj.__mro__ if base.__module__.partition(".")[0] == "rcdrs"]
    hidden = {name for base in lines for name in INTERNAL.get(base.__name__, ())}
    remarks = noted(doc.obj)
    members = sorted(doc.members.items(), key=lambda item: item[0] != "__init__")
    doc.members.clear()
    for name, member in members:
        home = next((base for base in lines if name in vars(base)), doc.obj)
        if name in hidden or repeats(name, lines):
            continue
        doc.members[name] = member
        if home is not doc.obj and home.__name__ in BASES:
            member.taken_from = (doc.taken_from[0], f"{doc.taken_from[1]}.{name}")
        if (name == "__init__" and not speaks(home, name)) or member.docstring.startswith(TUPLES):
            member.docstring = ""  # what torch or Python say of every class
        member.docstring = member.docstring or remarks.get(name, "")
        tidy(member)
    doc.bases = [BASES.get(base[1], base) for base in doc.bases if base[1] != "ABC"]


def speaks(kind: type, name: str) -> bool:
    return bool(getattr(vars(kind).get(name), "__doc__", None))


def repeats(name: str, lines: list[type]) -> bool:
    """Is this a method of which all is said where it is declared?"""
    homes = [kind for kind in lines if callable(vars(kind).get(name))]
    if name == "__init__" or not homes or speaks(homes[0], name):
        return False
    return any(speaks(kind, name) for kind in homes[1:])


def noted(kind: type) -> dict[str, str]:
    """The remarks ``#: ...`` above fields, which pdoc does not read."""
    found = re.findall(r"^ +#: (.*)\n +(\w+):", inspect.getsource(kind), flags=re.MULTILINE)
    return {name: remark for remark, name in found}


class _Words(str):
    """A default, in words."""

    __repr__ = str.__str__


def portable(signature: inspect.Signature) -> inspect.Signature:
    """Without the path of this machine."""
    parameters = [
        part.replace(default=_Words("<this checkout>")) if isinstance(part.default, Path) else part
        for part in signature.parameters.values()
    ]
    return signature.replace(parameters=parameters)


def headed(text: str) -> str:
    """A docstring with colons after the headings of its sections, which pdoc looks for."""
    return re.sub(r"^(Arguments|Example)$", r"\1:", text, flags=re.MULTILINE)
