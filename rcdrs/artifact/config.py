"""The configuration: read, filled, checked.  An error names the place, what was found there, and
what is allowed."""

from __future__ import annotations

import json
import weakref
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from reprlib import Repr
from typing import Any, NoReturn, TypeVar

import yaml
from pydantic import ValidationError, create_model

from rcdrs.experiments.base import experiments
from rcdrs.experiments.settings import Common, Plain, Section, merge
from rcdrs.peers.registry import PEERS

#: The checkout that this package is in, and in any the configuration of the paper.
ROOT = Path(__file__).parents[2]
PAPER = "workflow/config/paper.yaml"

#: More than any configuration has: bytes of a file, values, and levels of sections.
LARGEST, MOST, DEEPEST = 10**6, 10**5, 20

Config = Common
S = TypeVar("S", bound=Section)


class ConfigError(ValueError):
    """The configuration says something that it may not."""


def load(*paths: str | Path) -> Config:
    """The configuration of the files, each over the ones before it."""
    config: Plain = {}
    for path in paths:
        config = merge(config, read(path))
    return check(config)


class _Loader(yaml.SafeLoader):
    """Of two settings with one name YAML would take the last, and say nothing."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (name := (key.tag, key.value)) in seen:
                    _refuse(f"{key.value!r} is there twice", key)
                seen.add(name)
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        if len(node.value) > MOST:  # by `<<`, again and again
            _refuse(f"there are more than {MOST:,} settings", node)


def _refuse(problem: str, node: yaml.Node) -> NoReturn:
    raise yaml.constructor.ConstructorError(problem=problem, problem_mark=node.start_mark)


def read(path: str | Path) -> Plain:
    """What a file says, as it is written."""
    path = Path(path)
    if path.is_file() and path.stat().st_size > LARGEST:
        raise ConfigError(f"{path} has more than {LARGEST:,} bytes, expected a configuration.")
    try:
        stored = yaml.load(path.read_text("utf-8"), _Loader)  # a safe one
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{path} is not YAML{line}: {error.problem}.") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        told = " ".join(str(error).split())
        raise ConfigError(f"{path} is not YAML: {told}.") from error
    stored = {} if stored is None else stored
    if not isinstance(stored, dict):
        raise ConfigError(f"{path} holds {type(stored).__name__}, expected sections of settings")
    return stored


def check_size(written: Any) -> None:
    """An error of what no configuration is: aliases make a little text a structure without end."""
    level, count = [written], 0
    for _ in range(DEEPEST):
        level = [
            part
            for value in level
            if isinstance(value, (dict, list))
            for part in (value.values() if isinstance(value, dict) else value)
        ]
        count += len(level)
        if count > MOST:
            raise ConfigError(f"the configuration has more than {MOST:,} values.")
    if level:
        raise ConfigError(f"the configuration has more than {DEEPEST} levels.")


def check(written: Plain) -> Config:
    """The configuration of plain values, or an error."""
    check_size(written)
    kinds = experiments()
    # First the common part: what is wrong there is wrong in every section that takes it.
    checked(Common, {k: part for k, part in written.items() if k not in kinds}, model())
    filled = {
        name: kinds[name].Section.filled(part, written)
        if name in kinds and isinstance(part, dict)
        else part
        for name, part in written.items()
    }
    config = checked(model(), filled)
    _check_families(config)
    _check_rates(config)
    _check_peers(config)
    for name in config.universes:
        universe(config, name)
    return config


#: What a universe may change, beside the sections of experiments.
CHANGED = ("seeds", "sampling", "recipes", "rates")
#: Those of each configuration that lives, by its id: tables ask for one thousands of times.
_UNIVERSES: dict[int, dict[str, Config]] = {}


def universe(config: Config, name: str) -> Config:
    """The configuration of another reading of the protocol: what it changes, over all the rest."""
    if id(config) not in _UNIVERSES:
        _UNIVERSES[id(config)] = {}
        weakref.finalize(config, _UNIVERSES.pop, id(config)).atexit = False
    known = _UNIVERSES[id(config)]
    if name not in known:
        known[name] = _universe(config, name)
    return known[name]


def _universe(config: Config, name: str) -> Config:
    changes = config.universes.get(name)
    if changes is None:
        known = ", ".join(config.universes) or "none, as the configuration has no universes"
        raise ConfigError(f"unknown universe {name!r}, expected one of {known}")
    allowed = (*CHANGED, *experiments())
    if unknown := [key for key in changes if key not in allowed]:
        raise ConfigError(
            f"universes.{name}: unknown key {unknown[0]!r}, expected {', '.join(allowed)}"
        )
    try:
        return check(merge(config.but(universes={}).plain(), changes))
    except ConfigError as error:
        raise ConfigError(f"universes.{name}: {error}") from None


def checked(section: type[S], written: Plain, whole: type[Section] | None = None) -> S:
    """A section of plain values, or an error; of a part of one, which names the `whole`."""
    try:
        return section.model_validate(written)
    except ValidationError as error:
        problems = [_describe(problem, whole or section) for problem in error.errors()[:5]]
        raise ConfigError("; ".join(problems)) from None


def _check_families(config: Config) -> None:
    """An experiment that takes any family does not take another's."""
    others = {family: name for name, kind in experiments().items() for family in kind.families}
    for name in experiments().keys() - others.values():
        for number, family in enumerate(getattr(config, name).families):
            if family in others:
                raise ConfigError(
                    f"{name}.families[{number}] is {family!r}, expected a name that is not "
                    f"another experiment's ({', '.join(others)})"
                )


def _check_rates(config: Config) -> None:
    """Each is of a recipe, and of a method that learns."""
    known = dict.fromkeys(name for kind in experiments().values() for name in kind.learned)
    recipes = type(config.recipes).model_fields
    for recipe, rates in config.rates.items():
        if recipe not in recipes:
            raise ConfigError(
                f"rates: unknown recipe {recipe!r}, expected one of {', '.join(recipes)}"
            )
        if unknown := [name for name in rates if name not in known]:
            raise ConfigError(
                f"rates.{recipe}: unknown method {unknown[0]!r}, expected one of {', '.join(known)}"
            )


def _check_peers(config: Config) -> None:
    if unknown := [name for name in config.peers.settings if name not in PEERS]:
        raise ConfigError(
            f"peers.settings: unknown peer {unknown[0]!r}, expected one of {'; '.join(PEERS)}"
        )
    if others := [case for case in config.peers.projections if case not in config.peers.cases]:
        raise ConfigError(
            f"peers.projections has {others[0]!r}, expected some of peers.cases "
            f"({', '.join(config.peers.cases)})"
        )


@cache
def model() -> type[Config]:
    """The common part, and a section for each experiment."""
    sections: dict[str, Any] = {name: (kind.Section, ...) for name, kind in experiments().items()}
    return create_model("Config", __base__=Common, **sections)


def typed(value: Any) -> Any:
    """Snakemake reads numbers inside of lists and sections on its command line as text."""
    if isinstance(value, dict):
        return {key: typed(part) for key, part in value.items()}
    if isinstance(value, list):
        return [typed(part) for part in value]
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _describe(problem: Any, section: type[Section]) -> str:
    """``controller.hidden is 0, expected at least 1``."""
    place, found, limits = _place(problem["loc"]), problem["input"], problem.get("ctx", {})
    words = {
        "greater_than": "more than {gt}",
        "greater_than_equal": "at least {ge}",
        "less_than": "less than {lt}",
        "less_than_equal": "at most {le}",
        "finite_number": "a finite number",
        "literal_error": "one of {expected}",
        "string_pattern_mismatch": "a name that matches {pattern}",
        "string_too_long": "{max_length} or fewer letters",
        "too_short": "{min_length} or more entries",
        "too_long": "{max_length} or fewer entries",
        "int_type": "an integer",
        "float_type": "a number",
        "bool_type": "true or false",
        "string_type": "text",
        "list_type": "a list",
        "dict_type": "a section of settings",
        "model_type": "a section of settings",
    }
    match problem["type"]:
        case "extra_forbidden":
            *above, key = problem["loc"]
            known = ", ".join(_section(section, above).model_fields)
            return f"{_place(above)}: unknown key {key!r}, expected {known}".removeprefix(": ")
        case "missing":
            *above, key = problem["loc"]
            return f"{_place(above) or _name(section)}: {key!r} is a required property"
        case "value_error":
            message = str(limits["error"])
            joint = f" is {_shown(found)}, " if message.startswith("expected") else "."
            return f"{place}{joint}{message}"
        case kind if kind in words:
            shown = {name: _limit(value) for name, value in limits.items()}
            return f"{place} is {_shown(found)}, expected {words[kind].format(**shown)}"
        case _:
            return f"{place} is {_shown(found)}: {problem['msg']}"


def _shown(value: Any) -> str:
    """As it is written, but not all of it: a value may be as large as a file."""
    short = Repr()
    short.maxlevel, short.maxstring, short.maxother = 3, 80, 80
    return short.repr(value)


def _name(section: type[Section]) -> str:
    return "the configuration" if issubclass(section, Common) else "the settings"


def _limit(value: Any) -> str:
    """Numbers as they are written, and names with commas between them."""
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).strip("^$").replace(" or ", ", ").replace("'", "")


def _place(parts: Sequence[int | str]) -> str:
    """``ablation.rows[4].variant``."""
    place = "".join(
        f".{part}" if str(part).isidentifier() else f"[{part!r}]"
        for part in parts
        if part != "[key]"  # pydantic's word after the key of a mapping that is no name
    )
    return place.removeprefix(".")


def _section(found: Any, parts: Sequence[int | str]) -> Any:
    """The section at a place in one: through lists and mappings to what they hold."""
    for part in parts:
        fields = getattr(found, "model_fields", {})
        found = fields[part].annotation if part in fields else found
        while not hasattr(found, "model_fields") and getattr(found, "__args__", None):
            found = found.__args__[-1]
    return found
