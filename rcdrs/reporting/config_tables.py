"""The tables of the configuration: what ran, so that they cannot say otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, ClassVar

from rcdrs.reporting.base import Cell, Table, formula_list
from rcdrs.reporting.formatting import FAMILIES, math_mode, setting, typeset
from rcdrs.reporting.results import Config, Results

if TYPE_CHECKING:
    from rcdrs.cones import Cone


@dataclass(frozen=True)
class Protocol(Table):
    """Table app_global_protocol, of the experiments that are configured."""

    name: str
    template: ClassVar[str] = "protocol.tex.j2"

    def cells(self, config: Config, results: Results) -> list[Cell]:
        ablation, recipes = config["ablation"], config["recipes"]
        synthetic, dfl, dispatch = (config[name] for name in ("synthetic", "dfl", "dispatch"))
        everywhere = (synthetic["families"], synthetic["scales"], synthetic["depths"])
        ablated = (ablation["families"], [ablation["scale"]], [ablation["depth"]])

        def conic(
            families: list[str], scales: list[str], depths: list[int], recipe: str
        ) -> tuple[Config, str, str, list[int], str, int]:
            names = ", ".join(FAMILIES[family] for family in families)
            batch = recipes[recipe]["batch"]
            return synthetic, names, ", ".join(scales), depths, typeset(recipe), batch

        cone, days = "fixed mixed cone", "six buses, 24 hours"
        pretrained, operated = dfl["training"]["paper"], dispatch["training"]["paper"]
        forms = ", ".join(dispatch["formulations"])
        experiments = {
            "Synthetic conic optimization": conic(*everywhere, "paper"),
            "Synthetic, extended": conic(*everywhere, "log_kkt"),
            "Ablations": conic(*ablated, "paper"),
            "DFL, controller": (
                dfl, cone, "--", dfl["depths"], typeset("paper"), pretrained["batch"]
            ),
            "DFL, predictor": (
                dfl, cone, "--", dfl["depths"], "decision loss", dfl["predictor"]["batch"]
            ),
            "Energy dispatch": (
                dispatch, days, forms, dispatch["depths"], "dispatch merit", operated["batch"]
            ),
        }  # fmt: skip
        cells = []
        for row, (part, families, scales, depths, recipe, batch) in experiments.items():
            texts = {
                "Families": families,
                "Scales": scales,
                "Depths": formula_list(depths),
                "Instances": math_mode("/".join(map(str, part["instances"].values()))),
                "Recipe": recipe,
                "Batch": math_mode(setting(batch)),
                "Seeds": formula_list(config["seeds"]),
            }
            cells += [Cell(row, column, text) for column, text in texts.items()]
        return cells


@dataclass(frozen=True)
class Benchmarks(Table):
    """Table app_benchmark_case_summary, of the cases that run: read off the cases themselves."""

    name: str
    template: ClassVar[str] = "benchmarks.tex.j2"

    def cells(self, config: Config, results: Results) -> list[Cell]:
        from rcdrs.experiments.synthetic.instances import CASES  # torch takes seconds to import

        synthetic, ablation = config["synthetic"], config["ablation"]
        run = {
            *product(synthetic["families"], synthetic["scales"]),
            *product(ablation["families"], [ablation["scale"]]),
        }
        cells = []
        for case in CASES.values():
            if (case.family, case.scale) in run:
                texts = {
                    "Cone": _cone(case.cone),
                    "n": str(case.n),
                    "m": str(case.m),
                    "Condition": f"{case.condition:g}",
                }
                block = FAMILIES[case.family]
                cells += [Cell(case.scale, column, text, block) for column, text in texts.items()]
        return cells


def _cone(cone: Cone) -> str:
    from rcdrs.cones import PSD, Nonneg, Product, RotatedSecondOrder, SecondOrder

    match cone:
        case Product():
            return r" \(\times\) ".join(_cone(part) for part in cone.cones)
        case Nonneg():
            return math_mode(rf"\mathbf{{R}}_+^{{{cone.dim}}}")
        case SecondOrder():
            return math_mode(rf"(\mathcal{{Q}}_{{{cone.block}}})^{{{cone.count}}}")
        case RotatedSecondOrder():
            return math_mode(rf"(\mathcal{{Q}}^r_{{{cone.block}}})^{{{cone.count}}}")
        case PSD():
            return math_mode(rf"\mathbf{{S}}_+^{{{cone.order}}}")
    raise ValueError(f"no notation for the cone {cone}: add it to {__name__}.")


@dataclass(frozen=True)
class Hyperparameters(Table):
    """Table app_rc_hyperparameters, with both recipes."""

    name: str
    template: ClassVar[str] = "hyperparameters.tex.j2"

    def cells(self, config: Config, results: Results) -> list[Cell]:
        groups = _controller(config) | _recipes(config) | _runtime(config)
        return [
            Cell(row, "Value", text, block)
            for block, lines in groups.items()
            for row, text in lines.items()
        ]


@dataclass(frozen=True)
class DispatchParameters(Table):
    """Table app_dispatch_parameters: read off the network and its climate themselves."""

    name: str
    template: ClassVar[str] = "dispatch_parameters.tex.j2"

    def cells(self, config: Config, results: Results) -> list[Cell]:
        from rcdrs.experiments.dispatch.network import SIX_BUS as network  # torch, see above
        from rcdrs.experiments.dispatch.scenarios import Climate

        climate, part = Climate(), config["dispatch"]

        def each(devices: str, *names: str) -> str:
            """The values of one kind of device, name by name."""
            return ", ".join(
                formula_list((getattr(d, name) for d in getattr(network, devices)), "(", ")")
                for name in names
            )

        costs = {name: rf"\lambda_{{\rm {name}}}" for name in vars(network.costs)}
        counts = (network.buses, len(network.lines), network.horizon)
        values = {
            "Network, buses / lines / horizon": math_mode("/".join(map(str, counts))),
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
            "Angles, bound": math_mode(setting(network.angle_limit)),
            "Prices": _assigned(vars(network.costs), costs),
            "Base load": formula_list(network.loads, "(", ")"),
            "Load, mean level (open) / variation / noise": _slashed(
                vars(climate), "level", "variation", "noise"
            ),
            "Days, spread of load / weather (open)": _slashed(
                vars(climate), "day_load", "day_weather"
            ),
            "Renewable sites, amplitudes": each("sites", "amplitude"),
            "Renewable sites, sources (open)": ", ".join(site.source for site in network.sites),
            "Forecast error, load / renewable": _slashed(
                vars(climate), "forecast_load", "forecast_renewable"
            ),
            "Reserve factor": math_mode(setting(network.reserve_factor)),
            "Days, train / validation / test": _slashed(part["instances"], *part["instances"]),
            "Seeds / depths / reference depth": " / ".join(
                (
                    formula_list(config["seeds"]),
                    formula_list(part["depths"]),
                    math_mode(str(part["reference"])),
                )
            ),
        }
        return [Cell(row, "Value", text) for row, text in values.items()]


ACTION = {"rho": r"\rho_0", "alpha": r"\alpha_0", "beta": r"\beta_0"}
ENVELOPE = {"delta_0": r"\delta_0", "k_0": "k_0", "p": "p", "s_alpha": r"s_\alpha"}
GROWTH = {"rho": r"\chi_\rho", "beta": r"\chi_\beta"}


def _controller(config: Config) -> dict[str, dict[str, str]]:
    from rcdrs.controller import FEATURES  # torch takes seconds to import

    part, grid = config["controller"], config["grid"]
    features = part.get("features", FEATURES)
    return {
        "Controller": {
            "encoder": typeset(part["encoder"].upper()),
            "hidden width": math_mode(setting(part["hidden"])),
            "feature dimension": math_mode(setting(len(features))),
        },
        "Base action": {"before validation recentering": _assigned(config["base_action"], ACTION)},
        "Core selection": {
            "candidates for alpha": formula_list(grid["alpha"]),
            "candidates for beta": formula_list(grid["beta"]),
            "validation instances, at most": math_mode(setting(grid["instances"])),
        },
        "Global ranges": {
            name: formula_list(limits, "[", "]") for name, limits in part["ranges"].items()
        },
        "Envelope": {"RCDRS-Env only": _assigned(part["envelope"], ENVELOPE)},
        "Growth filter": {"positive scales": _assigned(part["growth"], GROWTH)},
    }


def _recipes(config: Config) -> dict[str, dict[str, str]]:
    groups = {}
    for name, recipe in config["recipes"].items():
        rate = math_mode(setting(recipe["learning_rate"]))
        symbols = {
            term: "m" if term == "margin" else rf"\lambda_{{\rm {term}}}" for term in recipe["loss"]
        }
        groups[f"Recipe {name}"] = {
            "epochs / batch": _slashed(recipe, "epochs", "batch"),
            "AdamW, learning rate": f"{rate}, {'cosine decay' if recipe['cosine'] else 'constant'}",
            "weight decay / gradient clipping": _slashed(recipe, "weight_decay", "clip"),
            "loss": _assigned(recipe["loss"], symbols),
        }
        if "obj" in recipe["loss"]:  # the other loss compares with nothing
            groups[f"Recipe {name}"]["core that the loss compares with"] = recipe["reference"]
    return groups


def _runtime(config: Config) -> dict[str, dict[str, str]]:
    repeats = _slashed(config["timing"], "warm_up", "repeats")
    return {"Runtime": {"warm-up / timed repeats": repeats}}


def _slashed(values: Mapping[str, float], *keys: str) -> str:
    return " / ".join(math_mode(setting(values[key])) for key in keys)


def _assigned(values: Mapping[str, float], symbols: Mapping[str, str]) -> str:
    """``a = 1, b = 2`` of every value; one without a symbol is an error, not left out."""
    return math_mode(r",\; ".join(f"{symbols[key]}={setting(v)}" for key, v in values.items()))
