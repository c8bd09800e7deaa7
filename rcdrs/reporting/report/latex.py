"""The LaTeX of the tables' cells as HTML: the small vocabulary that they use, and no more."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

_GREEK = ("alpha", "beta", "rho", "lambda", "delta", "chi")
_SYMBOLS = {name: f"&{name};" for name in _GREEK} | {
    "infty": "&infin;",
    "downarrow": "&darr;",
    "uparrow": "&uarr;",
    "times": " &times; ",
    "pm": " &plusmn; ",
    "cdot": "&middot;",
}
#: The element around an argument; none for type faces that HTML does without.
_ELEMENTS = {"mathbf": "b", "texttt": "code", "mathcal": "i", "textsc": "", "mathrm": ""}
_ELEMENTS |= {"makecell": "", "text": ""}
#: Delimiters of formulas, thin spaces, and changes of type face up to the end of a group.  A minus
#: sign stays a hyphen: numbers can then be copied into a program.
_IGNORED = {"(", ")", "!", "rm", "tiny"}
_SPACES = {";": " ", ",": " ", " ": " ", "\\": "<br>"}
_COMMAND = re.compile(r"\\\\(?:\[[^\]]*\])?|\\[A-Za-z]+\s*|\\.", re.DOTALL)


def to_html(latex: str) -> Markup:
    r"""``\(3.15\mathrm{e}{-1}\)`` as ``3.15e-1``; a command that is not known is an error."""
    return Markup(re.sub(" +", " ", _Reader(latex).until("").strip()))


class _Reader:
    """Reads LaTeX from left to right."""

    def __init__(self, latex: str) -> None:
        self.latex = latex
        self.at = 0

    def until(self, end: str) -> str:
        """HTML of everything up to the character `end`, or of the rest."""
        parts: list[str] = []
        while self.at < len(self.latex):
            if end and self.latex[self.at] == end:
                self.at += 1
                return "".join(parts)
            parts.append(self.piece())
        if end:
            raise ValueError(f"{self.latex!r} lacks a closing {end!r}.")
        return "".join(parts)

    def piece(self) -> str:
        """HTML of a group, a command or one character."""
        character = self.latex[self.at]
        if character == "\\":
            return self.command()
        self.at += 1
        match character:
            case "{":
                return self.until("}")
            case "_":
                return f"<sub>{self.piece()}</sub>"
            case "^":
                return f"<sup>{self.piece()}</sup>"
            case "~":
                return "\N{NO-BREAK SPACE}"
            case "-" if self.latex.startswith("-", self.at):
                self.at += 1
                return "\N{EN DASH}"
        return str(escape(character))

    def command(self) -> str:
        found = _COMMAND.match(self.latex, self.at)
        if found is None:
            raise ValueError(f"{self.latex!r} ends in a backslash.")
        self.at = found.end()
        name = found[0][1:].strip() or " "
        if name in _SYMBOLS:
            return _SYMBOLS[name]
        if name in _ELEMENTS:
            inner, element = self.piece(), _ELEMENTS[name]
            return f"<{element}>{inner}</{element}>" if element else inner
        if name in _IGNORED:
            return ""
        if name[0] in _SPACES:
            return _SPACES[name[0]]
        if name in "%_{}&#$":
            return str(escape(name))
        raise ValueError(rf"\{name} in {self.latex!r} is not known: add it to {__name__}.")
