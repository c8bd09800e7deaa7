"""What a result is of, and so what its file is called."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rcdrs.experiments.base import experiments

#: Where each kind of result is kept in the folder of a run.
PATHS = {
    "instances": "{within}instances/{case}-{seed}.npz",
    "cores": "{within}cores/{case}-{seed}-K{K}.json",
    "references": "{within}references/{case}-{seed}.npz",
    "checkpoints": "{within}checkpoints/{recipe}/{method}/{case}-{seed}-K{K}.pt",
    "rows": "{within}{experiment}/{case}-{seed}-K{K}/{method}@{recipe}.csv",
    "times": "{within}timing/{case}-{seed}.csv",
    "traces": "{within}traces/{case}-{seed}-K{K}.csv",
    "shifts": "{within}shifts/{case}-{seed}-K{K}.csv",
    "peers": "{within}peers/{case}-{seed}.csv",
}
SETTING = "{within}{experiment}/{case}-{seed}-K{K}.csv"
#: What may stand in each place: also the constraints of the workflow's wildcards.
PARTS = {
    "within": "(universes/[a-z_]+/)?",
    "experiment": "[a-z]+",
    "case": "[a-z]+(-[a-z]+)?",
    "seed": "[0-9]+",
    "K": "[0-9]+",
    "method": "[A-Za-z_-]+",
    "recipe": "[a-z_]+",
}


@dataclass(frozen=True, order=True)
class Key:
    """One result: its kind, and the part of this that its file is named after.

    `recipe` is how a method was trained; one that learns nothing is as the paper has it.
    """

    kind: str
    experiment: str
    case: str
    seed: int
    K: int = 0
    method: str = ""
    recipe: str = "paper"
    #: Another reading of the protocol; none is the configuration as it stands.
    universe: str = ""

    def path(self) -> str:
        """Below the folder of a run, as ``synthetic/socp-hard-0-K20/RCDRS-Env@paper.csv``."""
        return PATHS[self.kind].format(within=self.within, **vars(self))

    @property
    def within(self) -> str:
        """The folder of its universe."""
        return f"universes/{self.universe}/" if self.universe else ""

    def __str__(self) -> str:
        return self.path()

    @property
    def run(self) -> str:
        """``METHOD@RECIPE``."""
        return f"{self.method}@{self.recipe}"

    @property
    def family(self) -> str:
        return self.case.partition("-")[0]

    @property
    def scale(self) -> str:
        return self.case.partition("-")[2] or "-"

    def released(self) -> str:
        """Below the folder of a release, which keeps the rows of a setting in one file."""
        pattern = SETTING if self.kind == "rows" else PATHS[self.kind]
        return pattern.format(within=self.within, **vars(self))

    @staticmethod
    def of_row(row: Mapping[Any, Any]) -> Key:
        """The key of a line of a seed-level CSV."""
        case = row["family"] if row["scale"] == "-" else f"{row['family']}-{row['scale']}"
        names = (str(row["experiment"]), str(case), int(str(row["seed"])), int(str(row["K"])))
        run = (str(row["method"]), recipe_of(str(row["recipe"])))
        return Key("rows", *names, *run, str(row.get("universe", "")))


def recipe_of(written: str) -> str:
    """What learns nothing has the recipe "-" in files; it belongs to the paper's recipe, since the
    paper's tables show it beside what is learned."""
    return "paper" if written == "-" else written


def parse(path: str) -> dict[str, Any]:
    """The kind of result that a path is of, and what stands in its places.

    That of a whole setting, as a release has it, is of rows without a method.
    """
    for kind, pattern in (*PATHS.items(), ("rows", SETTING)):
        form = re.sub(r"\\{(\w+)\\}", lambda m: f"(?P<{m[1]}>{PARTS[m[1]]})", re.escape(pattern))
        if found := re.fullmatch(form, path):
            numbers = {
                name: int(x) for name, x in found.groupdict().items() if name in ("seed", "K")
            }
            within = found["within"].removeprefix("universes/").removesuffix("/")
            places = found.groupdict() | numbers | {"kind": kind, "universe": within}
            return {name: value for name, value in places.items() if name != "within"}
    raise ValueError(f"{path} is no result of a run, expected one of {', '.join(PATHS.values())}.")


def parse_end(path: Path) -> dict[str, Any]:
    """The same of a file anywhere that is called as a result; nothing of one that is not."""
    for count in (6, 5, 4, 3, 2):  # the longest first: a universe has folders of its own
        with suppress(ValueError):
            places = parse("/".join(path.absolute().parts[-count:]))
            if places.get("experiment", "synthetic") in experiments():
                return places
    return {}
