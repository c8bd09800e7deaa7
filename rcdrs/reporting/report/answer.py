"""The first screen of the page: the paper's question, the answer, and what holds of it and why.

Each sentence is made from results that are there; what waits for results is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pandas as pd

from rcdrs.artifact.config import Config, universe
from rcdrs.reporting import care, equal_time, multiverse, peers, shifts
from rcdrs.reporting.care import FAIR, FEEDBACK, SCHEDULE, WIDE, Gain, leading, percent
from rcdrs.reporting.claims.sources import FAILS, HOLDS, NOISE
from rcdrs.reporting.coverage import Comparison, compare
from rcdrs.reporting.formatting import TIE
from rcdrs.reporting.paper_values import paper_coverage
from rcdrs.reporting.render import PLAIN
from rcdrs.reporting.report.care import headline
from rcdrs.reporting.report.evidence import Evidence
from rcdrs.reporting.report.figures import Figure
from rcdrs.reporting.report.verdicts import MARKS
from rcdrs.reporting.results import Results
from rcdrs.reporting.tables import find_table
from rcdrs.reporting.tables.care import DEPTHS
from rcdrs.reporting.tables.peers import LEVEL

QUESTION = "Does residual feedback improve splitting with a fixed budget of steps?"
METRIC = "Gap"
RECIPE = care.RECIPES[-1]
#: The controller of the paper, in tables of what is beyond it.
LEARNED = f"RCDRS-Env, {RECIPE}"


@dataclass(frozen=True)
class Finding:
    """What one would like to know, in how many cases it is so, what was measured, and the section
    of the page that shows it."""

    claim: str
    count: int
    total: int
    measured: str
    section: str

    @property
    def mark(self) -> tuple[str, str]:
        """Class of the style sheet, and sign: in all cases, in most, or in no more than half."""
        most = NOISE if 2 * self.count > self.total else FAILS
        return MARKS[HOLDS if self.count == self.total else most]


#: Sentences, and what they are about in numbers.
Told = tuple[list[str], list[Finding]]
Reader = Callable[[Config, Results], Told]


@dataclass(frozen=True)
class Answer:
    sentences: list[str]
    findings: list[Finding]
    figure: Figure | None
    question: str = QUESTION


def answer(evidence: Evidence, ledger: pd.DataFrame | None) -> Answer:
    """Of a run, finished or not; `ledger` has the verdicts on the paper's recipe."""
    behind = partial(results_of, evidence)
    beyond = {name: read for name, read in BEYOND.items() if name in evidence.tables}
    sentences, findings = tell(evidence.config, behind, TOLD | beyond)
    found = behind("care")
    figure = None if found is None else headline(evidence.config, found)
    return Answer(sentences, [*findings, *_claims(ledger)], figure)


def tell(
    config: Config, behind: Callable[[str], Results | None], readers: dict[str, Reader]
) -> Told:
    """Sentences and findings from what the tables are made of that `readers` read, as far as it is
    there."""
    sentences, findings = [], []
    for table, read in readers.items():
        if (found := behind(table)) is not None:
            sentence, parts = read(config, found)
            sentences += sentence
            findings += parts
    return sentences, findings


def results_of(evidence: Evidence, table: str) -> Results | None:
    """What a table is made of, with the seeds that are there; None where there are none."""
    seeds = evidence.seeds(table) if evidence.behind(table) else []
    return evidence.of(table, seeds) if seeds else None


def _printed(config: Config, results: Results) -> Told:
    """As the paper compares: its recipe."""
    found = compare(config, results, METRIC, "paper")
    wins, mean = (
        PLAIN.show(paper_coverage()[name]) for name in ("best_rcdrs_gap_wins", "mean_gap_ratio")
    )
    told = (
        f"Trained as the paper says, RCDRS has a lower {METRIC} than the strongest classical "
        f"baseline in {_wins(found)} of {len(found)} settings, and {_mean(found)} of it in the "
        f"mean (the paper: {wins} and {mean})."
    )
    claim = "RCDRS, trained as the paper says, is better than every classical baseline."
    measured = f"It has {_mean(found)} of the {METRIC} of the strongest in the mean."
    return [told], [Finding(claim, _wins(found), len(found), measured, "synthetic")]


def _retrained(config: Config, results: Results) -> Told:
    found = compare(config, results, METRIC, RECIPE)
    claim = f"So is the same controller, trained with {RECIPE}."
    measured = f"It has {_mean(found)} in the mean."
    return [], [Finding(claim, _wins(found), len(found), measured, "synthetic")]


def _wins(found: list[Comparison]) -> int:
    return sum(c.ratio < 1 for c in found)


def _mean(found: list[Comparison]) -> str:
    return percent(Gain(tuple(c.ratio for c in found)).mean)


def _fair(config: Config, results: Results) -> Told:
    """What a constant from a grid without an edge leaves to feedback."""
    splits = care.split(config, results, METRIC)
    lead = leading(splits[0].found, RECIPE)
    schedule, best = f"{SCHEDULE}, {RECIPE}", f"{lead}, {RECIPE}"
    if not {WIDE, schedule, best} <= set(splits[0].found):
        return [], []
    wide, over = care.gain(splits, WIDE), care.gain(splits, best, WIDE)
    told = (
        f"A constant needs no learning, and from a grid without an edge ({WIDE}) is below the same "
        f"baseline in {wide.wins} of {len(splits)} settings, with {percent(wide.mean)} in the "
        f"mean; with equal care, {FEEDBACK[lead]} has {percent(over.geometric)} of the {METRIC} of "
        f"{WIDE} (geometric mean), a learned schedule without feedback "
        f"{percent(care.gain(splits, schedule, WIDE).geometric)}."
    )
    findings = [
        _beyond(splits, best, WIDE, "With equal care, feedback improves on a well-tuned constant.")
    ]
    depths = sorted({found.K for found in splits})
    for K in dict.fromkeys((depths[0], depths[-1])):
        at = [found for found in splits if found.K == K]
        claim = f"It improves on a learned schedule without feedback, at K = {K}."
        findings.append(_beyond(at, best, schedule, claim))
    return [told], findings


def _beyond(splits: list[care.Split], ours: str, theirs: str, claim: str) -> Finding:
    over = care.gain(splits, ours, theirs)
    measured = f"It has {percent(over.geometric)} of its {METRIC}, as a geometric mean."
    return Finding(claim, over.wins, len(splits), measured, "care")


def _timed(config: Config, results: Results) -> Told:
    races = equal_time.races(config, results)
    lead = leading(races[0].ratios)
    if lead not in races[0].ratios:
        return [], []
    timely = universe(config, FAIR).synthetic.timely.get(equal_time.RECIPE)
    named = f"{timely}, chosen for this on validation data," if timely else FEEDBACK[lead]
    won = len(equal_time.no_worse(races, lead, "median"))
    over = percent(equal_time.gain(races, lead, "median").geometric)
    error = f"the median {equal_time.METRIC} of {WIDE}"
    told = (
        f"Given the same time instead of the same number of steps, {named} is no worse "
        f"than {WIDE} in {won} of {len(races)} settings, and has {over} of {error} (geometric "
        "mean)."
    )
    claim = "Feedback is worth the time that it takes: a constant with more steps is no better."
    measured = f"It has {over} of {error} that takes as long."
    return [told], [Finding(claim, won, len(races), measured, "equal_time")]


def _elsewhere(config: Config, results: Results) -> Told:
    """Of the variant that stands for feedback, or of the first."""
    K, others = max(DEPTHS), shifts.data_targets(config)[1:]
    chosen = universe(config, FAIR).synthetic.chosen.get(RECIPE)
    fed = [s for s in shifts.solvers(config, K) if care.is_feedback(s.method)]
    fed.sort(key=lambda solver: solver.method != chosen)
    if not fed:
        return [], []
    gains = {target: shifts.gain(config, results, fed[0], target).geometric for target in others}
    lower = sum(value < 1 - TIE for value in gains.values())
    claim = "A trained layer is better than a constant tuned there on other data than its own."
    worst = max(gains, key=lambda target: gains[target])
    measured = (
        f"{fed[0].method}, K = {K}: at worst {percent(gains[worst])} of its {METRIC} ({worst})."
    )
    return [], [Finding(claim, lower, len(others), measured, "shifts")]


def _otherwise(config: Config, results: Results) -> Told:
    found, findings = multiverse.effects(config, results), []
    for recipe in dict.fromkeys(effect.recipe for effect in found):
        sizes = [effect.gain().geometric for effect in found if effect.recipe == recipe]
        ahead = sum(size < 1 - TIE for size in sizes)
        claim = f"However the paper is read, RCDRS with {recipe} leads on the hard cases."
        span = f"{percent(min(sizes))} to {percent(max(sizes))}"
        measured = f"By reading, it has {span} of the {METRIC} of the strongest."
        findings.append(Finding(claim, ahead, len(sizes), measured, "multiverse"))
    return [], findings


def _claims(ledger: pd.DataFrame | None) -> Iterator[Finding]:
    if ledger is not None:
        count, claim = Counter(ledger["verdict"]), "The claims of the paper hold with its recipe."
        measured = f"{count[NOISE]} are within seed noise, {count[FAILS]} do not hold."
        yield Finding(claim, count[HOLDS], len(ledger), measured, "claims")


def _flow(config: Config, results: Results) -> Told:
    """Power flow: plans with feedback beside those of constants, by depth."""
    mean, depths = _means("grid", config, results), [f"K={K}" for K in config.opf.depths]
    methods, K = (LEARNED, "Grid-DRS", "Recall-DRS"), depths[-1]
    if not {(K, name, "CostGap") for name in methods} <= mean.keys():
        return [], []
    won = sum(mean[at, LEARNED, "CostGap"] < mean[at, "Grid-DRS", "CostGap"] for at in depths)
    ours, constant, recalled = (
        [percent(mean[K, name, metric]) for metric in ("CostGap", "Pass")] for name in methods
    )
    measured = (
        f"At {K} plans cost {ours[0]} more than the exact ones and keep every limit in {ours[1]} "
        f"of the hours; a constant's {constant[0]} and {constant[1]}; a constant's that begins "
        f"where a similar hour ended {recalled[0]} and {recalled[1]}."
    )
    claim = "Hours of real power flow cost less with feedback than with a constant."
    return [], [Finding(claim, won, len(depths), measured, "grid")]


def _portfolios(config: Config, results: Results) -> Told:
    """Real stocks: regret by period, and what decisions were worth."""
    mean, periods = _means("portfolio", config, results), [*config.portfolio.instances.test]
    ours, exact = LEARNED.replace(",", "-F,"), "Simple-Exact"
    if not {(periods[0], name, "Utility") for name in (ours, "Grid-DRS", exact)} <= mean.keys():
        return [], []
    won = sum(mean[name, ours, "Regret"] < mean[name, "Grid-DRS", "Regret"] for name in periods)
    regret, constant = (mean[periods[0], name, "Regret"] for name in (ours, "Grid-DRS"))
    worth, simple = (mean[periods[0], name, "Utility"] for name in (ours, exact))
    measured = (
        f"{periods[0].capitalize()} weeks: it lacks {regret:.2f} basis points, a constant "
        f"{constant:.2f}; and is worth {worth:.1f} a week, the simplest prediction, solved "
        f"exactly, {simple:.1f}."
    )
    claim = (
        "Portfolios of real stocks are nearer to the optimum with feedback than with a constant."
    )
    return [], [Finding(claim, won, len(periods), measured, "portfolio")]


def _solvers(config: Config, results: Results) -> Told:
    """Beside other solvers, at equal accuracy."""
    found, told = peers.cases(results.peers), []
    for batch in (1, 400):
        raced = [(case, peers.race_of(case, peers.FORWARD, batch)) for case in found]
        leads = [peers.lead(case, peers.FORWARD, size, LEVEL) for case, size in raced]
        ratios = sorted((lead.ratio, lead.words) for lead in leads if lead is not None)
        if not ratios:
            return [], []
        span = f"{ratios[0][1]} to {ratios[-1][1]}"
        told.append((sum(ratio > 1 for ratio, _ in ratios), span))
    measured = (
        f"Where both get to an error of {LEVEL:g}, by {told[0][1]} times; for 400 instances "
        f"at once by {told[1][1]} times."
    )
    claim = "For one instance our fastest layer is faster than any solver, at equal accuracy."
    return [], [Finding(claim, told[0][0], len(found), measured, "peers")]


def _means(table: str, config: Config, results: Results) -> dict[tuple[str, str, str], float]:
    """The numbers of a table, by block, row and column."""
    cells = find_table(table).cells(config, results)
    return {(cell.block, cell.row, cell.column): cell.mean for cell in cells}


#: The table whose results each is told from.
TOLD: dict[str, Reader] = {
    "coverage": _printed,
    "coverage_log_kkt": _retrained,
    "care": _fair,
    "equal_time": _timed,
    "shifts": _elsewhere,
    "multiverse": _otherwise,
}
#: The same beyond the paper, where somebody has computed it.
BEYOND: dict[str, Reader] = {"grid": _flow, "portfolio": _portfolios, "peers": _solvers}
