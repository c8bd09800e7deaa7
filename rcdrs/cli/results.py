"""The commands about results: tables and what is made of them, releases, where a number is from."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from rcdrs.artifact.config import ROOT, Config, check, model
from rcdrs.artifact.key import Key
from rcdrs.artifact.manifest import RELEASED, Released
from rcdrs.artifact.plan import Plan
from rcdrs.artifact.release import release as copy_current
from rcdrs.experiments.settings import Recipes
from rcdrs.files import replacing
from rcdrs.reporting import tables
from rcdrs.reporting.details import Details
from rcdrs.reporting.peers import read as read_peers
from rcdrs.reporting.render import PLAIN
from rcdrs.reporting.results import Results, Shift, read_rows


def table(options: argparse.Namespace) -> None:
    tables.find_table(options.name)
    if options.out.suffix != ".tex":
        raise ValueError(f"--out is {options.out}, expected a .tex file.")
    config, results = _given(options, options.name)
    content = tables.render(options.name, config, results)
    for path in (options.out, options.out.with_suffix(".csv")):
        _write(path, content[f"{options.name}{path.suffix}"])
    print(f"wrote {options.out}")


def headline(options: argparse.Namespace) -> None:
    from rcdrs.reporting.headline import answer, behind, draw, markdown

    config, results = _given(options, *behind(check(options.config)))
    _write(options.out, markdown(config, results))
    _write(options.out.with_name("answer.md"), answer(config, results))
    with replacing(options.out.with_suffix(".png")) as temporary:
        # Without the version of the library, so that equal numbers give equal bytes.
        draw(config, results).savefig(temporary, metadata={"Software": None})
    print(f"wrote {options.out}")


def claims(options: argparse.Namespace) -> None:
    from rcdrs.reporting.claims import judge

    if options.recipe not in Recipes.model_fields:
        known = ", ".join(Recipes.model_fields)
        raise ValueError(f"--recipe is {options.recipe!r}, expected one of {known}.")
    names = [n for n, t in tables.configured(check(options.config)).items() if not t.extra]
    config, results = _given(options, *names)
    files, verdicts = judge(
        config, results, Details(options.details), options.recipe, options.tests
    )
    for suffix, content in files.items():
        _write(options.out.with_name(f"{options.out.stem}{suffix}"), content)
    for name, count in verdicts.items():
        print(f"{name}: {count}")
    print(f"wrote {options.out}")


def report(options: argparse.Namespace) -> None:
    from rcdrs.reporting.report.page import report as write

    _check_files(options.claims)
    write(Plan(check(options.config), ROOT), options.out, *options.claims)
    print(f"wrote {options.out}")


def draw(options: argparse.Namespace) -> None:
    from rcdrs.reporting.report.day import draw_day

    rows = read_rows([options.trace])
    if missing := {"schedule", "side", "part", "hour", "value"} - set(rows):
        raise ValueError(
            f"{options.trace} has no {', '.join(sorted(missing))}, expected the trace of a day of "
            "dispatch: make it with `snakemake --cores 2 dispatch_day`."
        )
    with replacing(options.out) as temporary:
        draw_day(rows).savefig(temporary)
    print(f"wrote {options.out}")


def preview(options: argparse.Namespace) -> None:
    _check_files(options.tables)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "preview.tex"
        source.write_text(tables.preview([path.resolve() for path in options.tables]), "utf-8")
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", source.name]
        for _ in range(4):  # long tables settle their column widths in several passes
            try:
                done = subprocess.run(
                    command,
                    cwd=folder,
                    capture_output=True,
                    encoding="utf-8",
                    errors="replace",
                    check=False,
                )
            except FileNotFoundError as error:
                raise FileNotFoundError(
                    "pdflatex is not installed: the preview needs LaTeX "
                    "(Debian: texlive-latex-extra)."
                ) from error
            if done.returncode:
                raise ValueError(f"pdflatex failed:\n{done.stdout[-2000:]}")
            if "Rerun" not in done.stdout:
                break
        if not (pages := source.with_suffix(".pdf")).exists():
            raise ValueError(f"there is nothing in {', '.join(map(str, options.tables))} to show.")
        with replacing(options.out) as temporary:
            temporary.write_bytes(pages.read_bytes())
    print(f"wrote {options.out}")


def release(options: argparse.Namespace) -> None:
    if options.archive or options.crate:
        _publish(options)
        return
    plan, paper = Plan.read(ROOT, options.configfile), Plan.read(ROOT)
    folder = ROOT / RELEASED
    if not Path(plan.folder).is_dir():
        raise ValueError(
            f"{Path(plan.folder).resolve()} is not there: run the workflow first, and call this "
            "where it ran."
        )
    # Whatever run a result is from, released it stands for the paper's.
    told = copy_current(Path(plan.folder), folder, paper.key, paper.known_digests)
    now = Plan.read(ROOT)
    for state, names in told.items():
        print(f"{state}: {len(names)}" + (f" ({', '.join(names[:3])}, ...)" if names else ""))
    if told["stale"]:
        print("stale results were computed by other code or settings: run the workflow again.")
    if outdated := now.released_states()["stale"]:
        print(
            f"{outdated} results in {folder} no longer hold and are not used: release them again."
        )
    _warn(now)


def _publish(options: argparse.Namespace) -> None:
    """A release for others: as one file, or as a folder."""
    from rcdrs.artifact.archive import write_archive, write_crate

    if options.configfile:
        raise ValueError("--configfile says what to release, and --crate and --archive are of all.")
    if options.crate:
        print(f"wrote {options.crate}: {write_crate(ROOT, options.crate, _report_of):,} files")
    if options.archive:
        size = write_archive(ROOT, options.archive, _report_of)
        print(f"wrote {options.archive}: {size / 1e6:.1f} MB, and {options.archive}.sha256")


def _report_of(plan: Plan, out: Path) -> None:
    """With the claims as they are in that checkout."""
    from rcdrs.reporting.report.page import RECIPES
    from rcdrs.reporting.report.page import report as write

    found = [Path(plan.tables_folder, f"claims_{recipe}.csv") for recipe in RECIPES]
    write(plan, out, *(path if path.exists() else None for path in found))


def compare(options: argparse.Namespace) -> None:
    from rcdrs.reporting.compare import compare as differences

    Plan.read(ROOT, options.configfile)  # in a checkout, and with a configuration that holds
    table = differences(options.run_folder, Released.read(ROOT / RELEASED))
    print(table.to_string(index=False, float_format="{:.1e}".format))


def status(options: argparse.Namespace) -> None:
    plan = Plan.read(ROOT, options.configfile)
    if options.json:
        print(json.dumps(plan.released_digests(), indent=1))
        return
    states: dict[Key, str] = {}
    for name, table in tables.configured(plan.config).items():
        if table.extra and not tables.is_there(plan, name):
            print(f"{name:20} not computed: `snakemake table_{name}`, with the extra `real`")
            continue
        keys = tables.needs(name, plan.config)
        states |= {key: plan.state(key) for key in keys if key not in states}
        counts = Counter(states[key] for key in keys)
        found = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
        print(f"{name:20} {found or 'from the configuration alone'}")
    _warn(plan)


def verify(options: argparse.Namespace) -> None:
    from rcdrs.artifact.verify import verify as run

    print(run(ROOT, options.base, options.sample, options.keep))


def lock(options: argparse.Namespace) -> None:
    from rcdrs.artifact import lock

    if not options.check:
        lock.write(ROOT, options.upgrade)
    elif wrong := lock.check(ROOT):
        raise ValueError("\n".join(["the lock does not fit any more:", *wrong]))
    print(f"{', '.join(lock.FILES)}: fit {lock.PROJECT}")


def schema(options: argparse.Namespace) -> None:
    print(json.dumps(model().model_json_schema(), indent=1))


def explain(options: argparse.Namespace) -> None:
    plan = Plan.read(ROOT, options.configfile)
    keys = tables.needs(options.table, plan.config)
    kinds = ("rows", "times", "shifts")
    files = {kind: plan.results(k for k in keys if k.kind == kind) for kind in kinds}
    if missing := [path for paths in files.values() for path in paths if not Path(path).exists()]:
        raise ValueError(
            f"{options.table} is not computed yet ({len(missing)} results are missing, as "
            f"{missing[0]}): run `snakemake --cores 2 table_{options.table}` first."
        )
    rows, times, shifts = (read_rows(map(Path, paths)) for paths in files.values())
    details = Details(tables.files(plan, "details", options.table))
    results = Results(rows, times, plan.config.seeds, details, shifts)
    cells = tables.values(options.table, plan.config, results)
    match = [cell for cell in cells if (cell.row, cell.column) == (options.row, options.column)]
    if not match:
        known = (dict.fromkeys(c.row for c in cells), dict.fromkeys(c.column for c in cells))
        raise ValueError(
            f"{options.table} has no cell {options.row!r}, {options.column!r}; "
            f"its rows: {', '.join(known[0])}; its columns: {', '.join(known[1])}."
        )
    for cell in match:
        print(f"{cell.block} {cell.row}, {cell.column}: {cell.show(PLAIN)}".strip())
        behind = results.behind(cell.metric, cell.keys)
        if not behind.empty:
            shown = behind.drop(columns=["source", "universe"]).dropna(axis="columns", how="all")
            print(shown.to_string(index=False, float_format="{:.3g}".format))
            for row in behind.to_dict("records"):
                key = _key_of(plan, {str(name): value for name, value in row.items()})
                origin = plan.origin(key)
                told = {k: v for k, v in origin.items() if k not in ("sha256", "digests")}
                digests = origin.get("digests", {})
                timed = f"{row['method']} K{row['K']}"
                part = timed if key.kind == "times" else f"{row['method']}@{row['recipe']}"
                print(f"  {row['source']}: {json.dumps(told | {part: digests.get(part)})}")


def rates(options: argparse.Namespace) -> None:
    from rcdrs.experiments.synthetic import pace
    from rcdrs.experiments.synthetic.rates import choose, lead, search

    plan = Plan.read(ROOT, options.configfile).within(options.universe)
    experiment = plan.experiments["synthetic"]
    scores = search(experiment, options.out, options.jobs)
    print(choose(scores).to_string())
    for recipe, method in lead(scores).items():
        print(f"{method} leads the feedback variants with {recipe}.")
    if options.pace:
        table = pace.paces(experiment, scores)
        print(table.to_string(float_format="{:.3g}".format))
        for recipe, method in pace.lead(table).items():
            print(f"{method} leads them with {recipe} given the same time.")


def calibrate(options: argparse.Namespace) -> None:
    from rcdrs.reporting.calibration import calibrate as run
    from rcdrs.reporting.calibration import rms

    config = Plan.read(ROOT, options.configfile).config
    for family in options.families:
        table = run(family, options.seed, config)
        print(table.to_string(index=False, float_format="{:.3g}".format))
        print(f"{family}: rms of log(ours/paper) over {len(table)} figures: {rms(table):.3f}\n")


def _key_of(plan: Plan, row: dict[str, Any]) -> Key:
    """Of a seed-level row, of a line of shifts, or of a time."""
    if "target" in row:
        return Shift.of_row(row).file
    if "recipe" in row:
        return Key.of_row(row)
    key = Key.of_row(row | {"recipe": "paper"})
    return plan.key("times", key.case, key.seed, universe=key.universe)


def _given(options: argparse.Namespace, *names: str) -> tuple[Config, Results]:
    """The configuration, and the results of the files given, or else of its run for these tables: a
    list of thousands is longer than a command line may be."""
    config = check(options.config)
    if options.rows is None:
        plan = Plan(config, ROOT)
        # Claims are not about other data, and do not wait for it.
        more = [kind for kind in ("shifts", "peers") if kind in options]
        for kind in ("rows", "times", "details", *more):
            setattr(options, kind, tables.files(plan, kind, *names))
    times, shifts = (read_rows(getattr(options, kind, [])) for kind in ("times", "shifts"))
    details = Details(getattr(options, "details", []))
    given = (read_rows(options.rows), times, config.seeds, details, shifts)
    return config, Results(*given, read_peers(getattr(options, "peers", None) or []))


def _warn(plan: Plan) -> None:
    if odd := plan.warning():
        print(odd, file=sys.stderr)


def _check_files(paths: list[Path]) -> None:
    for path in paths:
        path.open("rb").close()  # or an error that names it


def _write(path: Path, content: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(content, "utf-8")
