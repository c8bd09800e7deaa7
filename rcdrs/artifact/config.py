"""A configuration of the workflow: read, checked, and turned into the library's objects."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import yaml

Config = dict[str, Any]


class ConfigError(ValueError):
    """The configuration says something that it may not."""


def load(*paths: str | Path, schema: str | Path) -> Config:
    """The configuration of the files, each over the ones before it, checked against `schema`."""
    config: Config = {}
    for path in paths:
        try:
            stored = yaml.safe_load(Path(path).read_text())
        except yaml.YAMLError as error:
            raise ConfigError(f"{path} is not YAML: {error}") from error
        stored = {} if stored is None else stored
        if not isinstance(stored, dict):
            raise ConfigError(
                f"{path} holds {type(stored).__name__}, expected sections of settings"
            )
        config = merge(config, stored)
    return check(config, schema)


def merge(base: Config, changes: Config) -> Config:
    """`changes` over `base`, section by section; lists are replaced."""
    merged = dict(base)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def check(config: Config, schema: str | Path) -> Config:
    """The configuration itself, or an error that names the place and what is allowed there."""
    rules = yaml.safe_load(Path(schema).read_text())
    problems = sorted(
        jsonschema.Draft202012Validator(rules).iter_errors(config), key=lambda e: list(e.path)
    )
    if problems:
        raise ConfigError("; ".join(_describe(problem) for problem in problems[:5]))
    for place, value in _numbers(config):
        if not math.isfinite(value):
            raise ConfigError(f"{place} is {value}, expected a finite number")
    for name, (low, high) in config["controller"].get("ranges", {}).items():
        if low >= high:
            raise ConfigError(f"controller.ranges.{name} is [{low}, {high}], expected low < high")
    ablation = config["ablation"]
    for number, row in enumerate(ablation["rows"]):
        if row["variant"] not in ablation["variants"]:
            known = ", ".join(ablation["variants"])
            raise ConfigError(
                f"ablation.rows[{number}].variant is {row['variant']!r}, expected one of {known}"
            )
    return config


def _numbers(value: Any, place: str = "") -> Iterator[tuple[str, float]]:
    """Every float of a configuration with its place."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _numbers(part, f"{place}.{key}" if place else key)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _numbers(part, f"{place}[{index}]")
    elif isinstance(value, float):
        yield place, value


def _describe(problem: Any) -> str:
    place = ""
    for part in problem.absolute_path:
        place += f"[{part}]" if isinstance(part, int) else f".{part}"
    place = place.lstrip(".")
    where = f"{place} is {problem.instance!r}" if place else "the configuration"
    match problem.validator:
        case "additionalProperties":
            known = problem.schema.get("properties", {})
            unknown = ", ".join(repr(key) for key in problem.instance if key not in known)
            section = f"{place}: " if place else ""
            return f"{section}unknown key {unknown}, expected {', '.join(known)}"
        case "required":
            return f"{place or 'the configuration'}: {problem.message}"
        case "enum":
            return f"{where}, expected one of {', '.join(map(str, problem.validator_value))}"
        case "const":
            return f"{where}, expected {problem.validator_value}"
        case "minimum":
            return f"{where}, expected at least {problem.validator_value}"
        case "exclusiveMinimum":
            return f"{where}, expected more than {problem.validator_value}"
        case "exclusiveMaximum":
            return f"{where}, expected less than {problem.validator_value}"
        case "type":
            return f"{where}, expected {problem.validator_value}"
        case _:
            return f"{where}: {problem.message}"
