"""One look for each method, on every figure: a colour of the style sheet and a mark of its own."""

from __future__ import annotations

import re

from rcdrs.reporting.report.charts import Look

#: Colour class and mark; the marks tell methods apart without the colours.
_LOOKS = {
    "RCDRS-Env": ("env", "circle"),
    "RCDRS-NoEnv": ("noenv", "square"),
    "Layerwise-DRS": ("layerwise", "diamond"),
    "AA-DRS": ("anderson", "up"),
    "S-ADMM": ("admm", "down"),
    "Grid-DRS": ("grid-drs", "plus"),
    "F-DRS": ("fixed", "cross"),
    "L-PDHG": ("pdhg", "up"),
    "PTO": ("exact", "diamond"),
}
#: In decision-focused learning: frozen or joint weights of RCDRS, and exact solutions.
_SUFFIX = re.compile(r"(?:-(?P<how>[FJ]))?(?P<exact>-Exact)?$")


def look(method: str, recipe: str = "paper") -> Look:
    """The look of a method; another recipe than the paper's, and frozen weights, are dashed."""
    found = _SUFFIX.search(method)
    assert found is not None
    css, mark = _LOOKS.get(method[: found.start()], ("other", "circle"))
    dashed = recipe not in ("paper", "-") or found["how"] == "F"
    return Look(css, "plus" if found["exact"] else mark, dashed)


def name_of(method: str, recipe: str = "paper") -> str:
    return method if recipe in ("paper", "-") else f"{method}, {recipe}"
