"""What sections of the configuration are made of: values with their limits, and no torch.

The configuration file is the one place for the protocol's numbers; what stands here is what a
number may be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from rcdrs.controller import CONTROLS, ENCODERS, FEATURES, SCHEDULE, Envelope, Growth, Ranges
from rcdrs.controller import ControllerConfig as Standard
from rcdrs.experiments.sampling import SAMPLINGS, noted

T = TypeVar("T")
Plain = dict[str, Any]


def _told_apart(values: list[T]) -> list[T]:
    if len(set(values)) < len(values):
        raise ValueError("expected each entry once")
    return values


def _not_released(run: str) -> str:
    """A run writes to results/<run>."""
    if run.lower() == "released":
        raise ValueError("expected another name: released results are there")
    return run


def _growing(sizes: list[int]) -> list[int]:
    if sizes != sorted(sizes):
        raise ValueError("expected the smallest first")
    return sizes


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("expected text without control characters")
    return text


Some = Annotated[list[T], AfterValidator(_told_apart)]
Many = Annotated[list[T], Field(min_length=1), AfterValidator(_told_apart)]
Interval = Annotated[list[T], Field(min_length=2, max_length=2)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Natural = Annotated[int, Field(ge=0, lt=2**31)]
Count = Annotated[int, Field(ge=1, lt=2**31)]
Depth = Annotated[int, Field(ge=1, le=10_000)]
Positive = Annotated[Finite, Field(gt=0)]
Weight = Annotated[Finite, Field(ge=0)]
Factor = Annotated[Finite, Field(ge=1)]
Relaxation = Annotated[Finite, Field(gt=0, lt=2)]
Share = Annotated[Finite, Field(ge=0, lt=1)]
#: Of files: `rcdrs.artifact.key` takes them apart again.
Name = Annotated[str, Field(pattern="^[a-z_]+$", max_length=40)]
Family = Annotated[str, Field(pattern="^[a-z]+$", max_length=40)]
Printable = Annotated[str, AfterValidator(_printable)]
Scale = Literal["small", "medium", "hard"]
Edition = Literal[*SAMPLINGS]  # type: ignore[valid-type]
Controlled = Literal[
    "Layerwise-DRS",
    "RCDRS-Env",
    "RCDRS-NoEnv",
    "RCDRS-MLP",
    "RCDRS-Light",
    "RCDRS-Glance",
    "RCDRS-Anderson",
]


class Section(BaseModel):
    """A part of the configuration: typed as it is written, and without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def plain(self) -> Plain:
        """As a file or a command line holds it."""
        return self.model_dump()

    @classmethod
    def filled(cls, written: Plain, common: Plain) -> Plain:
        """The section as written, over the common parts of the configuration."""
        return written

    def but(self, **changes: Any) -> Self:
        """The same with other values, which are not checked again."""
        return self.model_copy(update=changes)


#: Written only where it is set: what does not have it stays what it was.
IF_SET = Field(exclude_if=lambda value: not value)


class Sizes(Section):
    """Instances in each split."""

    train: Count
    validation: Count
    test: Count


class Sampled(Sizes):
    """And the edition that they are drawn by: see `rcdrs.experiments.sampling`."""

    sampling: Annotated[Edition, Field(exclude_if=lambda name: not noted(name))] = "first"


class Grid(Section):
    """Candidates of the fixed core, and how many validation instances score them at most."""

    alpha: Many[Relaxation]
    beta: Many[Positive]
    instances: Count


class EnvelopeSection(Section):
    delta_0: Positive = Envelope.delta_0
    k_0: Positive = Envelope.k_0
    p: Annotated[Finite, Field(gt=1)] = Envelope.p
    s_alpha: Positive = Envelope.s_alpha


class GrowthSection(Section):
    rho: Factor = Growth.rho
    beta: Factor = Growth.beta


class RangesSection(Section):
    rho: Interval[Positive] = list(Ranges.rho)
    alpha: Interval[Relaxation] = list(Ranges.alpha)
    beta: Interval[Positive] = list(Ranges.beta)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for name, (low, high) in self.plain().items():
            if low >= high:
                raise ValueError(f"{name} is [{low}, {high}], expected low < high")
        return self


class Controller(Section):
    """As `rcdrs.ControllerConfig`, whose defaults are the paper's."""

    encoder: Literal[*ENCODERS, SCHEDULE] = Standard.encoder  # type: ignore[valid-type]
    hidden: Count = Standard.hidden
    features: Many[Literal[FEATURES]] = list(FEATURES)  # type: ignore[valid-type]
    controls: Some[Literal[CONTROLS]] = list(CONTROLS)  # type: ignore[valid-type]
    ranges: RangesSection = RangesSection()
    envelope: EnvelopeSection = EnvelopeSection()
    growth: GrowthSection = GrowthSection()
    scheduled: Annotated[bool, IF_SET] = Standard.scheduled
    period: Annotated[Count, Field(exclude_if=lambda value: value == Standard.period)] = (
        Standard.period
    )


class Schedule(Section):
    """A recipe without its loss: AdamW, with the learning rate constant or decaying."""

    epochs: Natural
    batch: Count
    learning_rate: Positive
    weight_decay: Weight
    clip: Positive
    #: Cosine decay of the learning rate, down to the share `final` of it.
    cosine: bool = False
    final: Share = 0.0
    #: Trained for all of these depths, one drawn for each minibatch; by default for its own.
    depths: Annotated[Some[Depth], IF_SET] = []


class TerminalWeights(Section):
    """Of `TerminalLoss`."""

    eq: Weight
    con: Weight
    mov: Weight
    obj: Weight
    dom: Weight
    margin: Weight
    smooth: Weight


class LogKKTWeights(Section):
    """Of `LogKKTLoss`."""

    eq: Weight
    con: Weight
    mov: Weight
    dual: Weight
    gap: Weight


class PaperRecipe(Schedule):
    """The paper's: its loss, and which fixed core that compares with."""

    loss: TerminalWeights
    reference: Literal["base", "tuned"]


class LogKKTRecipe(Schedule):
    """Ours; its loss compares with nothing."""

    loss: LogKKTWeights


class Recipes(Section):
    paper: PaperRecipe
    log_kkt: LogKKTRecipe


class Timing(Section):
    warm_up: Natural
    repeats: Count


class Measured(Section):
    """How other solvers and layers are measured: see `rcdrs.peers`."""

    #: Cases of which projections onto the feasible sets are measured too.
    projections: Some[Printable]
    #: Of the fixed core.
    depths: Many[Depth]
    batches: Annotated[Many[Count], AfterValidator(_growing)]
    #: Instances whose gradients are compared with exact ones.
    gradients: Count
    #: More than one call, and one process, may take.
    seconds: Positive
    limit: Positive
    solvers: Many[Printable]
    #: By name the tolerances of each, or its numbers of steps.
    settings: dict[Printable, Many[Positive]]

    @model_validator(mode="after")
    def _each_has_settings(self) -> Self:
        if missing := [name for name in self.solvers if name not in self.settings]:
            raise ValueError(f"settings has none for {missing[0]!r}, which is one of solvers")
        return self


class Peers(Measured):
    #: Whose instances and fixed cores they are, and first of all whose trained layers.
    universe: Name
    seed: Natural
    cases: Many[Printable]


class PeersSettings(Measured):
    """What `rcdrs peers` is told: also the versions of packages, and candidates of fixed cores."""

    versions: dict[Printable, Printable]
    grid: Grid


class LongRun(Section):
    """Of a reference: its steps, and the depth whose core it takes."""

    steps: Count
    depth: Count | None = None


class ExperimentSection(Section):
    """What most experiments have, beside `methods` and `extended`, those trained with log_kkt too;
    a grid or controller that it leaves out is the configuration's common one."""

    depths: Many[Depth]
    instances: Sizes
    grid: Grid
    controller: Controller = Controller()

    @classmethod
    def filled(cls, written: Plain, common: Plain) -> Plain:
        parts = ("grid", "controller")
        return merge({part: common[part] for part in parts if part in common}, written)


def merge(base: Plain, changes: Plain) -> Plain:
    """`changes` over `base`, section by section; lists are replaced."""
    merged = dict(base)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


#: Learning rates by recipe and method, in place of the recipe's own.
Rates = dict[str, dict[str, Positive]]


class Common(Section):
    """The configuration but for the sections of its experiments."""

    run: Annotated[
        str, Field(pattern="^[A-Za-z0-9_-]+$", max_length=80), AfterValidator(_not_released)
    ]
    device: Literal["auto", "cpu", "cuda"]
    #: Given on the command line: --config results=recompute
    results: Literal["auto", "recompute", "released"] = "auto"
    seeds: Many[Natural]
    threads: Annotated[int, Field(ge=1, le=1024)]
    #: Of the synthetic instances and of those of decision-focused learning.
    sampling: Edition = "second"
    grid: Grid
    controller: Controller = Controller()
    recipes: Recipes
    rates: Annotated[Rates, IF_SET] = {}
    timing: Timing
    peers: Peers
    #: What each changes in the sections of experiments, the seeds, the recipes, the rates or the
    #: sampling: see `rcdrs.artifact.config.universe`.
    universes: Annotated[dict[Name, Plain], IF_SET] = {}
    #: Also those of universes?
    tables: Literal["paper", "all"] = "all"

    @property
    def tabled(self) -> dict[str, Plain]:
        """The universes that tables, claims and report are about."""
        return self.universes if self.tables == "all" else {}

    if TYPE_CHECKING:  # the sections, by name

        def __getattr__(self, name: str) -> Any: ...
