"""The tables of the configuration: what ran, so that they cannot say otherwise."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from rcdrs.artifact.config import Config
from rcdrs.controller import BASE_ACTION, CONTROLS
from rcdrs.experiments.settings import PaperRecipe
from rcdrs.reporting.formatting import FAMILIES, Assigned, Cones, Joined, Numbers, Value
from rcdrs.reporting.results import Results
from rcdrs.reporting.tables.base import Cell, Table

if TYPE_CHECKING:
    from rcdrs.cones import Cone

SPLITS = ("train", "validation", "test")


class _Configured(Table):
    measured = False


class Protocol(_Configured):
    """Table 5, of the experiments that are configured."""

    def cells(self, config: Config, results: Results) -> list[Cell]:
        ablation, recipes = config.ablation, config.recipes
        synthetic, dfl, dispatch = config.synthetic, config.dfl, config.dispatch
        forms, scales = ", ".join(dispatch.formulations), ", ".join(synthetic.scales)
        families, few = (
            ", ".join(FAMILIES[name] for name in part.families) for part in (synthetic, ablation)
        )
        conic = (synthetic, families, scales, synthetic.depths)
        ablated = (synthetic, few, ablation.scale, [ablation.depth])
        decided = (dfl, "fixed mixed cone", None, dfl.depths)
        operated = (dispatch, "six buses, 24 hours", forms, dispatch.depths)
        experiments = {
            "Synthetic conic optimization": (*conic, "paper", recipes.paper),
            "Synthetic, extended": (*conic, "log_kkt", recipes.log_kkt),
            "Ablations": (*ablated, "paper", recipes.paper),
            "DFL, controller": (*decided, "paper", dfl.training.paper),
            "DFL, predictor": (*decided, "decision loss", dfl.predictor),
            "Energy dispatch": (*operated, "dispatch merit", dispatch.training.paper),
        }
        cells = []
        for row, (part, problems, scale, depths, recipe, training) in experiments.items():
            shown: dict[str, Value] = {
                "Families": problems,
                "Scales": scale,
                "Depths": Numbers(depths, "{}"),
                "Instances": Numbers([getattr(part.instances, split) for split in SPLITS], "", "/"),
                "Recipe": recipe,
                "Batch": Numbers([training.batch]),
                "Seeds": Numbers(config.seeds, "{}"),
            }
            cells += [Cell(row, column, value) for column, value in shown.items()]
        return cells


class Benchmarks(_Configured):
    """Table 6, of the cases that run: read off the cases themselves."""

    def cells(self, config: Config, results: Results) -> list[Cell]:
        from rcdrs.experiments.synthetic.instances import CASES  # torch takes seconds to import

        synthetic, ablation = config.synthetic, config.ablation
        run = {
            *product(synthetic.families, synthetic.scales),
            *product(ablation.families, [ablation.scale]),
        }
        cells = []
        for case in CASES.values():
            if (case.family, case.scale) in run:
                shown: dict[str, Value] = {"Cone": Cones(_cones(case.cone)), "n": case.n}
                shown |= {"m": case.m, "Condition": case.condition}
                block = FAMILIES[case.family]
                cells += [Cell(case.scale, column, value, block) for column, value in shown.items()]
        return cells


def _cones(cone: Cone) -> list[tuple[str, tuple[int, ...]]]:
    from rcdrs.cones import PSD, Nonneg, Product, RotatedSecondOrder, SecondOrder

    match cone:
        case Product():
            return [found for part in cone.cones for found in _cones(part)]
        case Nonneg():
            return [("Nonneg", (cone.dim,))]
        case SecondOrder() | RotatedSecondOrder():
            return [(type(cone).__name__, (cone.block, cone.count))]
        case PSD():
            return [("PSD", (cone.order,))]
    raise ValueError(f"no notation for the cone {cone}: add it to {__name__}.")


class Hyperparameters(_Configured):
    """Table 7, with both recipes."""

    def cells(self, config: Config, results: Results) -> list[Cell]:
        repeats = _slashed(config.timing, "warm_up", "repeats")
        groups = _controller(config)
        groups |= {f"Recipe {name}": _recipe(recipe) for name, recipe in config.recipes}
        groups |= {"Runtime": {"warm-up / timed repeats": repeats}}
        return [
            Cell(row, "Value", value, block)
            for block, lines in groups.items()
            for row, value in lines.items()
        ]


class DispatchParameters(_Configured):
    """Table 12: read off the network and its climate themselves."""

    def cells(self, config: Config, results: Results) -> list[Cell]:
        from rcdrs.experiments.dispatch.network import SIX_BUS as network  # torch, see above
        from rcdrs.experiments.dispatch.scenarios import Climate

        climate, part = Climate(), config.dispatch

        def each(devices: str, *names: str) -> Joined:
            """The values of one kind of device, name by name."""
            kind = getattr(network, devices)
            return Joined([Numbers([getattr(d, name) for d in kind], "()") for name in names], ", ")

        prices = {f"lambda_{name}": price for name, price in vars(network.costs).items()}
        counts = (network.buses, len(network.lines), network.horizon)
        run = [Numbers(config.seeds, "{}"), Numbers(part.depths, "{}")]
        shown: dict[str, Value] = {
            "Network, buses / lines / horizon": Numbers(counts, "", "/"),
            "Generators, limits": each("generators", "limit"),
            "Generators, quadratic and linear cost": each("generators", "quadratic", "linear"),
            "Batteries, charging and discharging power": each("batteries", "charge", "discharge"),
            "Batteries, lowest and highest energy": each("batteries", "lowest", "highest"),
            "Batteries, energy at both ends (open)": each("batteries", "initial"),
            "Batteries, efficiencies": each(
                "batteries", "charge_efficiency", "discharge_efficiency"
            ),
            "Lines, susceptances": each("lines", "susceptance"),
            "Lines, limits": each("lines", "limit"),
            "Angles, bound": Numbers([network.angle_limit]),
            "Prices": Assigned(prices),
            "Base load": Numbers(network.loads, "()"),
            "Load, mean level (open) / variation / noise": _slashed(
                climate, "level", "variation", "noise"
            ),
            "Days, spread of load / weather (open)": _slashed(climate, "day_load", "day_weather"),
            "Renewable sites, amplitudes": each("sites", "amplitude"),
            "Renewable sites, sources (open)": ", ".join(site.source for site in network.sites),
            "Forecast error, load / renewable": _slashed(
                climate, "forecast_load", "forecast_renewable"
            ),
            "Reserve factor": Numbers([network.reserve_factor]),
            "Days, train / validation / test": _slashed(part.instances, *SPLITS),
            "Seeds / depths / reference depth": Joined([*run, Numbers([part.reference])], " / "),
        }
        return [Cell(row, "Value", value) for row, value in shown.items()]


def _controller(config: Config) -> dict[str, dict[str, Value]]:
    part, grid = config.controller, config.grid
    action = {f"{name}_0": x for name, x in zip(CONTROLS, BASE_ACTION, strict=True)}
    growth = {f"chi_{name}": value for name, value in part.growth}
    return {
        "Controller": {
            "encoder": part.encoder.upper(),
            "hidden width": Numbers([part.hidden]),
            "feature dimension": Numbers([len(part.features)]),
        },
        "Base action": {"before validation recentering": Assigned(action)},
        "Core selection": {
            "candidates for alpha": Numbers(grid.alpha, "{}"),
            "candidates for beta": Numbers(grid.beta, "{}"),
            "validation instances, at most": Numbers([grid.instances]),
        },
        "Global ranges": {name: Numbers(ends, "[]") for name, ends in part.ranges},
        "Envelope": {"RCDRS-Env only": Assigned(part.envelope.plain())},
        "Growth filter": {"positive scales": Assigned(growth)},
    }


def _recipe(recipe: Any) -> dict[str, Value]:
    rate = Numbers([recipe.learning_rate])
    weights = {"m" if term == "margin" else f"lambda_{term}": x for term, x in recipe.loss}
    shown: dict[str, Value] = {
        "epochs / batch": _slashed(recipe, "epochs", "batch"),
        "AdamW, learning rate": Joined(
            [rate, "cosine decay" if recipe.cosine else "constant"], ", "
        ),
        "weight decay / gradient clipping": _slashed(recipe, "weight_decay", "clip"),
        "loss": Assigned(weights),
    }
    if isinstance(recipe, PaperRecipe):  # the other loss compares with nothing
        shown["core that the loss compares with"] = recipe.reference
    return shown


def _slashed(values: Any, *names: str) -> Joined:
    return Joined([Numbers([getattr(values, name)]) for name in names], " / ")
