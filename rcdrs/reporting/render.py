"""How values are written: one renderer, and what differs between LaTeX, HTML and plain text."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from markupsafe import escape

from rcdrs.reporting.formatting import (
    LARGER_IS_BETTER,
    METRICS,
    Amount,
    Assigned,
    Cones,
    Joined,
    Measured,
    Numbers,
    Value,
)

#: In LaTeX, in HTML, and as plain text.
FORMS = {
    "formula": (r"\(%s\)", "%s", "%s"),
    "bold": (r"\mathbf{%s}", "<b>%s</b>", "%s"),
    "method": (r"\textsc{%s}", "%s", "%s"),
    "recipe": (r"\texttt{%s}", "<code>%s</code>", "%s"),
    "under": (r"\makecell{%s\\[-1pt] {\tiny %s}}", "%s<br> %s", "%s (%s)"),
    "nothing": ("--", "&ndash;", "--"),
    # Numbers.
    "exponent": (r"\mathrm{e}{%d}", "e%d", "e%+03d"),
    "power": ("10^{%d}", "10<sup>%d</sup>", "10^%d"),
    "dot": (r"\cdot", "·", "·"),
    "tight": (r"\!\pm\!", " ± ", " ± "),
    "loose": (r"\pm", " ± ", " ± "),
    "percent": (r"%.1f\%%", "%.1f%%", "%.1f %%"),
    "infinity": (r"\infty", "∞", "∞"),
    # Symbols.
    "greek": (r"\%s", "&%s;", "%s"),
    "word": (r"\mathrm{%s}", "%s", "%s"),
    "space": ("~", "\N{NO-BREAK SPACE}", " "),
    "index": ("_%s", "<sub>%s</sub>", "_%s"),
    "label": (r"_{\rm %s}", "<sub>%s</sub>", "_%s"),
    "comma": (r",\; ", ", ", ", "),
    "down": (r"\downarrow", " ↓", " ↓"),
    "up": (r"\uparrow", " ↑", " ↑"),
    # Cones.
    "times": (r" \(\times\) ", " &times; ", " x "),
    "Nonneg": (r"\mathbf{R}_+^{%d}", "<b>R</b><sub>+</sub><sup>%d</sup>", "R_+^%d"),
    "PSD": (r"\mathbf{S}_+^{%d}", "<b>S</b><sub>+</sub><sup>%d</sup>", "S_+^%d"),
    "SecondOrder": (
        r"(\mathcal{Q}_{%d})^{%d}",
        "(<i>Q</i><sub>%d</sub>)<sup>%d</sup>",
        "(Q_%d)^%d",
    ),
    "RotatedSecondOrder": (
        r"(\mathcal{Q}^r_{%d})^{%d}",
        "(<i>Q</i><sup>r</sup><sub>%d</sub>)<sup>%d</sup>",
        "(Q^r_%d)^%d",
    ),
}
GREEK = ("alpha", "beta", "rho", "lambda", "delta", "chi")
#: What is set apart in a text: methods, the names of controls, recipes and depths.
_NAMES = re.compile(
    r"\b(?:"
    r"(?P<method>(?:F|Grid|AA|Layerwise|Wide|Anderson|Recall)-DRS|S-ADMM|L-PDHG"
    r"|RCDRS(?:-(?:Env|NoEnv|MLP|Light|Glance|Anderson))?)(?![\w-])"
    r"|(?P<greek>(?:alpha|beta|rho)(?:\+(?:alpha|beta|rho))*)\b"
    r"|(?P<recipe>paper|log\\?_kkt)\b"
    r"|(?P<formula>K=\d+)\b)"
)


class Notation:
    """`show` writes any value; the others write parts of one, outside of formulas `text` alone."""

    def __init__(self, column: int, escape: Callable[[str], str]) -> None:
        self.forms = {name: forms[column] for name, forms in FORMS.items()}
        self.escape = escape

    def show(self, value: Value, bold: bool = False) -> str:
        forms = self.forms
        match value:
            case None:
                return forms["nothing"]
            case str():
                return self.text(value)
            case int() | float():
                return f"{value:g}"
            case Joined():
                return value.separator.join(map(self.show, value.parts))
            case Cones():
                each = (forms["formula"] % (forms[kind] % sizes) for kind, sizes in value.parts)
                return forms["times"].join(each)
            case Measured():
                written = forms["formula"] % self._measured(value, bold)
                return forms["under"] % (written, self.text(value.by)) if value.by else written
        return forms["formula"] % self._formula(value)

    def _formula(self, value: Amount | Numbers | Assigned) -> str:
        match value:
            case Amount() if value.whole:
                return f"{value.number:.0f}/{value.whole}"
            case Amount():  # a ratio to nothing is infinite, see `coverage.ratio`
                infinite = math.isinf(value.number)
                return self.forms["infinity"] if infinite else self.forms["percent"] % value.number
            case Numbers():
                opening, closing = map(self.escape, value.brackets or ("", ""))
                return opening + value.separator.join(map(self.exact, value.values)) + closing
        pairs = (f"{self.symbol(name)}={self.exact(x)}" for name, x in value.values.items())
        return self.forms["comma"].join(pairs)

    def _measured(self, value: Measured, bold: bool) -> str:
        written = self.number(value.mean, value.style.spec)
        if value.std is not None:
            joint = self.forms["tight" if value.style.tight else "loose"]
            written += joint + self.number(value.std, value.style.spec)
        return self.forms["bold"] % written if bold else written

    def text(self, plain: str) -> str:
        """Methods, recipes, Greek names and depths as the paper sets them."""

        def named(found: re.Match[str]) -> str:
            if found.lastgroup == "greek":
                letters = "+".join(self.forms["greek"] % name for name in found[0].split("+"))
                return self.forms["formula"] % letters
            return self.forms[str(found.lastgroup)] % found[0]

        return _NAMES.sub(named, self.escape(plain))

    def number(self, value: float, spec: str) -> str:
        """A rounded number, without the delimiters of a formula."""
        mantissa, e, exponent = format(value, spec).partition("e")
        return mantissa + self.forms["exponent"] % int(exponent) if e else mantissa

    def exact(self, value: float) -> str:
        """A number of the configuration: 0.3, 64, 10^-3."""
        if isinstance(value, int):
            return str(value)
        digits = next(n for n in range(17) if float(f"{value:.{n}e}") == value)
        mantissa, _, exponent = f"{value:.{digits}e}".partition("e")
        if abs(int(exponent)) < 3:
            return f"{value:g}"
        power = self.forms["power"] % int(exponent)
        return power if mantissa == "1" else mantissa + self.forms["dot"] + power

    def symbol(self, name: str) -> str:
        """``rho_0``, ``s_alpha``, ``lambda_obj``, ``Dist``: a letter or word, and its index."""
        letter, _, index = name.partition("_")
        if letter in GREEK:
            letter = self.forms["greek"] % letter
        elif len(letter) > 1:
            letter = self.forms["word"] % letter.replace(" ", self.forms["space"])
        if index in GREEK:
            return letter + self.forms["index"] % (self.forms["greek"] % index)
        if index:
            letter += self.forms["index" if index.isdigit() else "label"] % index
        return letter

    def metric(self, name: str) -> str:
        return self.forms["formula"] % self.symbol(METRICS[name])

    def head(self, metric: str) -> str:
        """The metric over its column, with the direction that is better."""
        arrow = self.forms["up" if metric in LARGER_IS_BETTER else "down"]
        return self.forms["formula"] % (self.symbol(METRICS[metric]) + arrow)


_SPECIAL = str.maketrans(
    {character: "\\" + character for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"±": r"\(\pm\)"}
)
LATEX = Notation(0, lambda text: text.translate(_SPECIAL))
HTML = Notation(1, lambda text: str(escape(text)))
PLAIN = Notation(2, str)
