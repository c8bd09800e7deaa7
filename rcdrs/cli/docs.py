"""The reference of what users import, made from its docstrings."""

from __future__ import annotations

import argparse
import re

#: Whose names are public.
MODULES = ("rcdrs", "rcdrs.cones")


def docs(options: argparse.Namespace) -> None:
    """One page a module, with a search; pdoc reads the docstrings."""
    try:
        import pdoc
    except ModuleNotFoundError as error:
        raise ValueError(
            "pdoc is not installed: `pip install -c envs/constraints.txt -e '.[test]'` brings it."
        ) from error
    import rcdrs

    for name in rcdrs.__all__:
        setattr(rcdrs, name, getattr(rcdrs, name))  # pdoc does not ask a module's `__getattr__`
    google = pdoc.docstrings.google
    pdoc.docstrings.google = lambda docstring: google(headed(docstring))
    try:
        pdoc.render.configure(docformat="google", show_source=False, search=True)
        pdoc.pdoc(*MODULES, output_directory=options.out)
    finally:
        pdoc.docstrings.google = google
    print(f"wrote {options.out / 'rcdrs.html'}")


def headed(text: str) -> str:
    """A docstring with colons after the headings of its sections, which pdoc looks for."""
    return re.sub(r"^(Arguments|Example)$", r"\1:", text, flags=re.MULTILINE)
