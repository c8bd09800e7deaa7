"""Numbers and names as the paper typesets them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass


class _Labels(dict[str, str]):
    """Labels of the paper's families; another is called by its name."""

    def __missing__(self, family: str) -> str:
        return family.upper()


FAMILIES = _Labels(qp="QP-lift", socp="SOCP", mixed="Mixed cone")

#: Metrics in math mode, by their column in the seed-level CSVs.
METRICS = {
    "ObjErr": r"\mathrm{ObjErr}",
    "r_p": r"r_{\rm p}",
    "r_d": r"r_{\rm d}",
    "r_gap": r"r_{\rm gap}",
    "Gap": r"\mathrm{Gap}",
    "Dist": r"\mathrm{Dist}",
    "Regret": r"\mathrm{Regret}",
    "CostGap": r"\mathrm{CostGap}",
    "OptGap": r"\mathrm{OptGap}",
    "Eq": r"\mathrm{Eq.}",
    "Shed": r"\mathrm{Shed}",
    "Curt": r"\mathrm{Curt.}",
    "Reserve": r"\mathrm{Reserve}",
    "Emerg": r"\mathrm{Emerg.}",
    "Pass": r"\mathrm{Pass}",
    "time_ms": r"\mathrm{Time~(ms)}",
}


LARGER_IS_BETTER = ("Pass",)


@dataclass(frozen=True)
class Style:
    """How a number is rounded, and what stands between mean and deviation."""

    spec: str
    joint: str

    def number(self, value: float) -> str:
        """In math mode, without the delimiters: ``3.15\\mathrm{e}{-1}``."""
        mantissa, e, exponent = format(value, self.spec).partition("e")
        return rf"{mantissa}\mathrm{{e}}{{{int(exponent)}}}" if e else mantissa

    def rounded(self, value: float) -> float:
        """The number that is printed, for comparing what a reader sees."""
        return float(format(value, self.spec))

    def mean_std(self, mean: float, std: float | None) -> str:
        deviation = "" if std is None else self.joint + self.number(std)
        return math_mode(self.number(mean) + deviation)


SCIENTIFIC = Style(".2e", r"\!\pm\!")
MILLISECONDS = Style(".3f", r"\!\pm\!")
THREE_DECIMALS = Style(".3f", r"\pm")
FOUR_DECIMALS = Style(".4f", r"\pm")
FIVE_DECIMALS = Style(".5f", r"\pm")


def math_mode(text: str) -> str:
    return rf"\({text}\)"


def bold(text: str) -> str:
    """A number of `Style.mean_std` in bold."""
    inner = text.removeprefix(r"\(").removesuffix(r"\)")
    return math_mode(rf"\mathbf{{{inner}}}")


def percent(value: float) -> str:
    """A value in percent, one decimal; infinity is possible, see `coverage.ratio`."""
    return math_mode(r"\infty" if math.isinf(value) else rf"{value:.1f}\%")


def setting(value: float) -> str:
    """A number of the configuration, exact, without delimiters: 0.3, 64, 10^{-3}."""
    if isinstance(value, int):
        return str(value)
    digits = next(n for n in range(17) if float(f"{value:.{n}e}") == value)
    mantissa, _, power = f"{value:.{digits}e}".partition("e")
    exponent = int(power)
    if abs(exponent) < 3:
        return f"{value:g}"
    return f"10^{{{exponent}}}" if mantissa == "1" else rf"{mantissa}\cdot10^{{{exponent}}}"


def header(metric: str) -> str:
    arrow = r"\uparrow" if metric in LARGER_IS_BETTER else r"\downarrow"
    return math_mode(METRICS[metric] + arrow)


_SPECIAL = str.maketrans(
    {c: "\\" + c for c in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)
_METHOD = re.compile(
    r"\b(?:(?:F|Grid|AA|Layerwise)-DRS|S-ADMM|L-PDHG|RCDRS(?:-Env|-NoEnv)?)(?![\w-])"
)
_GREEK = re.compile(r"\b(?:alpha|beta|rho)(?:\+(?:alpha|beta|rho))*\b")
_DEPTH = re.compile(r"\bK=\d+\b")
_RECIPE = re.compile(r"\b(?:paper|log\\_kkt)\b")


def typeset(text: str) -> str:
    """Plain text as LaTeX: methods in small capitals, recipes in typewriter,
    Greek names and depths as formulas."""
    text = text.translate(_SPECIAL)
    text = _METHOD.sub(lambda found: rf"\textsc{{{found[0]}}}", text)
    text = _GREEK.sub(lambda found: math_mode("\\" + found[0].replace("+", "+\\")), text)
    text = _RECIPE.sub(lambda found: rf"\texttt{{{found[0]}}}", text)
    return _DEPTH.sub(lambda found: math_mode(found[0]), text)
