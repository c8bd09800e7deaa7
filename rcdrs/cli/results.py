"""The verbs about results: tables, their preview, releases, and where a number comes from."""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import yaml

from rcdrs.artifact.config import load
from rcdrs.artifact.plan import PAPER, SCHEMA, Plan
from rcdrs.artifact.release import release as copy_current
from rcdrs.artifact.schedule import Task, jobs_of, longest_chain, makespan, submissions_of, tasks_of
from rcdrs.artifact.times import (
    JOB_TIMES,
    Estimate,
    count,
    duration,
    measure,
    overhead,
    read,
    write,
)
from rcdrs.files import replacing
from rcdrs.reporting import tables
from rcdrs.reporting.results import TIME, read_rows

#: The checkout.
ROOT = Path(__file__).parents[2]
#: In it, how a cluster gets the jobs.
PROFILE = "workflow/profiles/slurm/config.yaml"


def table(options: argparse.Namespace) -> None:
    tables.find_table(options.name)
    rows, times = read_rows(options.rows), read_rows(options.times)
    content = tables.render(options.name, options.config, rows, times)
    with replacing(options.out) as temporary:
        temporary.write_text(content[f"{options.name}.tex"])
    # Every table also as data: its own CSV where it has one, else its cells.
    data = content.get(f"{options.name}.csv")
    if data is None:
        cells = tables.values(options.name, options.config, rows, times)
        data = cells.drop(columns="query").to_csv(index=False)
    with replacing(options.out.with_suffix(".csv")) as temporary:
        temporary.write_text(data)
    print(f"wrote {options.out}")


def preview(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "preview.tex"
        source.write_text(tables.preview([path.resolve() for path in options.tables]))
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", source.name]
        for _ in range(4):  # long tables settle their column widths in several passes
            try:
                done = subprocess.run(
                    command, cwd=folder, capture_output=True, text=True, check=False
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
        with replacing(options.out) as temporary:
            temporary.write_bytes(source.with_suffix(".pdf").read_bytes())
    print(f"wrote {options.out}")


def release(options: argparse.Namespace) -> None:
    plan, paper = _plan(options), Plan.of(load(ROOT / PAPER, schema=ROOT / SCHEMA), ROOT)

    def current(name: str) -> dict[str, str]:
        try:
            return paper.digest(name)  # whatever run it is from, it stands for the paper's
        except KeyError:  # of a variant that is no longer configured
            return {}

    folder = ROOT / "results/released"
    told = copy_current(Path(plan.folder), folder, current)
    for state, names in told.items():
        print(f"{state}: {len(names)}" + (f" ({', '.join(names[:3])}, ...)" if names else ""))
    if told["stale"]:
        print("stale results were computed by other code or settings: run the workflow again.")
    if told["outdated"]:
        print(f"outdated files in {folder} are not used: release them again, or delete them there.")


def compare(options: argparse.Namespace) -> None:
    from rcdrs.reporting.compare import compare as differences

    table = differences(options.run_folder, _plan(options).released)
    print(table.to_string(index=False, float_format="{:.1e}".format))


def report(options: argparse.Namespace) -> None:
    from rcdrs.reporting.report.page import report as write

    write(Plan.of(options.config, ROOT), options.out, *options.claims)
    print(f"wrote {options.out}")


def status(options: argparse.Namespace) -> None:
    plan = _plan(options)
    for name in tables.TABLES:
        names = plan.rows_behind(name) + plan.times_behind(name)
        counts = Counter(plan.state(result) for result in names)
        found = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
        print(f"{name:20} {found or 'from the configuration alone'}")


def profile(options: argparse.Namespace) -> None:
    if not options.runs and not options.cores:
        raise ValueError("give the folder of a run, such as results/paper, or --cores.")
    if options.runs:
        _show_times(options)
    if options.cores:
        _show_schedule(_plan(options), options)


def _show_times(options: argparse.Namespace) -> None:
    times = [time for run in options.runs for time in measure(run)]
    if not times:
        raise ValueError(f"no benchmark files under {', '.join(map(str, options.runs))}.")
    frame = pd.DataFrame(
        {
            "run": time.run,
            "rule": time.rule,
            "jobs": time.jobs,
            "core seconds": time.jobs * time.seconds,
            "inside": time.jobs * time.inside,
        }
        for time in times
    )
    print(frame.groupby(["run", "rule"]).sum().round().astype(int).to_string())
    for name in frame["run"].unique():
        print(f"{name}: {overhead([time for time in times if time.run == name])}")
    if options.out is not None:
        write(times, options.out)
        print(f"wrote {options.out}")


def _show_schedule(plan: Plan, options: argparse.Namespace) -> None:
    """Expected wall times of the whole run, from what its jobs took here or elsewhere."""
    run = options.runs[0] if options.runs else Path(plan.folder)
    expected = Estimate(run, read(ROOT / JOB_TIMES))
    jobs = jobs_of(plan)
    found = {name: expected(run / "benchmarks" / f"{name}.tsv") for name in jobs}
    unknown = [name for name, seconds in found.items() if seconds is None]
    if len(unknown) == len(jobs):
        raise ValueError(f"no job was timed, neither in {run} nor in {JOB_TIMES}.")
    if unknown:
        print(f"{count(len(unknown), 'job')} never timed, as {unknown[0]}: taken as 0 s.")
    seconds = {name: value or 0.0 for name, value in found.items()}
    machine = tasks_of(jobs, seconds)
    profile = yaml.safe_load((ROOT / PROFILE).read_text())
    settings = profile.get("groups", {}), profile.get("group-components", {})
    grouped = submissions_of(jobs, seconds, *settings)
    single = submissions_of(jobs, seconds, {}, {})
    print(f"{count(len(jobs), 'job')}, {duration(sum(seconds.values()))} of core time.")
    print(f"cores   one machine   cluster: {len(grouped):,} submissions   each job by itself")
    for cores in options.cores:
        times = [_after(tasks, cores) for tasks in (machine, grouped, single)]
        print(f"{cores:5}   {times[0]:11}   {times[1]:24}   {times[2]}")
    print("A cluster starts Snakemake for each job, which is counted; waiting in its queue is not.")
    names, chain = list(jobs), longest_chain(machine)
    told = " -> ".join(f"{names[n]} ({duration(machine[n].seconds)})" for n in chain)
    total = duration(sum(machine[n].seconds for n in chain))
    print(f"the longest chain, which more cores do not shorten, takes {total}: {told}")


def _after(tasks: Sequence[Task], cores: int) -> str:
    return duration(makespan(tasks, cores))


def headline(options: argparse.Namespace) -> None:
    from rcdrs.reporting.headline import draw, markdown

    rows = read_rows(options.rows)
    with replacing(options.out) as temporary:
        temporary.write_text(markdown(options.config, rows))
    with replacing(options.out.with_suffix(".png")) as temporary:
        # Without the version of the library, so that equal numbers give equal bytes.
        draw(options.config, rows).savefig(temporary, metadata={"Software": None})
    print(f"wrote {options.out}")


def explain(options: argparse.Namespace) -> None:
    plan = _plan(options)
    tables.find_table(options.table)
    files = {name: Path(plan.result(name)) for name in plan.rows_behind(options.table)}
    clocks = {name: Path(plan.result(name)) for name in plan.times_behind(options.table)}
    if missing := [name for name, path in {**files, **clocks}.items() if not path.exists()]:
        raise ValueError(
            f"{options.table} is not computed yet ({len(missing)} results are missing, as "
            f"{missing[0]}): run `snakemake --cores 2 table_{options.table}` first."
        )
    rows, times = read_rows(list(files.values())), read_rows(list(clocks.values()))
    cells = tables.values(options.table, plan.config, rows, times)
    match = cells[(cells["row"] == options.row) & (cells["column"] == options.column)]
    if match.empty:
        known = ", ".join(dict.fromkeys(cells["row"])), ", ".join(dict.fromkeys(cells["column"]))
        raise ValueError(
            f"{options.table} has no cell {options.row!r}, {options.column!r}; "
            f"its rows: {known[0]}; its columns: {known[1]}."
        )
    for _, cell in match.iterrows():
        print(f"{cell['block']} {cell['row']}, {cell['column']}: {cell['text']}".strip())
        source = tables.behind(cell, rows, times)
        print(source.to_string(index=False))
        for path in (clocks if cell["metric"] == TIME else files).values():
            if any(_holds(path, row) for _, row in source.iterrows()):
                note = path.with_suffix(".origin.json")
                print(f"  {path}: {_origin(plan, path, note)}")


def _holds(path: Path, row: pd.Series) -> bool:
    """Is this seed-level row from this file?  Files are named after what they hold."""
    scale = "" if row["scale"] == "-" else f"-{row['scale']}"
    case = f"{row['family']}{scale}-{row['seed']}"
    depth = f"-K{row['K']}" if path.parent.name != "timing" else ""
    variant = row["experiment"] != "ablation" or path.parent.name == row["method"]
    return path.stem == f"{case}{depth}" and variant


def _origin(plan: Plan, path: Path, note: Path) -> str:
    """Where a result was computed, from the note beside it or from the manifest."""
    if note.exists():
        return json.dumps(json.loads(note.read_text()))
    folder = plan.released.folder
    entry = plan.released.entries.get(str(path.relative_to(folder)), {})
    return json.dumps({key: value for key, value in entry.items() if key != "sha256"})


def _plan(options: argparse.Namespace) -> Plan:
    files = [ROOT / PAPER, *([options.configfile] if options.configfile else [])]
    return Plan.of(load(*files, schema=ROOT / SCHEMA), ROOT)
