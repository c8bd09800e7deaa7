"""What the tables are called on the page, and one sentence on how to read each."""

from __future__ import annotations

from rcdrs.reporting.care import LIMIT

_SPREAD = "Mean over seeds of the test mean, ± the sample standard deviation between seeds."
_HARD = f"Every method on the hard benchmarks, learned ones with the paper's recipe. {_SPREAD}"
_COVERED = (
    "Wins and ratios over every family, scale and depth, by seed-averaged metrics. A ratio divides "
    "the better RCDRS variant by the strongest baseline of the setting: of the classical ones, "
    "which learn nothing, as the paper's table says, or of every one that is not RCDRS, as its "
    "text says. The paper's value is held against the classical reading, in which hard SOCP comes "
    "out as in the paper."
)
_SETTINGS = (
    "The lines behind the summary: the strongest of the classical methods and of every compared "
    "one, chosen for each metric by itself, its value and its r_p, which tells a small Gap of a "
    "point far from feasible; both RCDRS variants; and the ratio of the better one to each."
)
_ABLATED = f"Each row changes one component. {_SPREAD}"
_DISPATCH = f"Every method on the dispatch problem. {_SPREAD}"
_REGRET = f"Every method on decision-focused learning. {_SPREAD}"
_CARE = (
    "The metric of each row over that of the strongest classical baseline of the paper, and over "
    "that of Wide-DRS: geometric means over settings, and in how many it is lower. A ratio counts "
    f"as a factor of {LIMIT:g} at most, as a Gap of zero would decide the whole; Mean is the plain "
    "mean, as the paper has it. The best feedback variant is the best in each setting, which "
    "flatters it a little."
)

_TITLES = {
    "synthetic_k20": ("Hard conic benchmarks, K = 20", _HARD),
    "synthetic_k5": ("Hard conic benchmarks, K = 5", _HARD),
    "synthetic_log_kkt": (
        "Two recipes on the hard benchmarks",
        "RCDRS trained with the paper's recipe and with log_kkt, beside the best compared method, "
        "which is chosen for each metric by itself.",
    ),
    "ablation_main": ("Ablations, main variants", _ABLATED),
    "ablation_full": ("Ablations, every variant", _ABLATED),
    "coverage": ("Coverage summary, paper's recipe", _COVERED),
    "coverage_log_kkt": (
        "Coverage summary, log_kkt",
        f"{_COVERED} The paper's values belong to its own recipe.",
    ),
    "settings": ("Every setting, paper's recipe", _SETTINGS),
    "settings_log_kkt": ("Every setting, log_kkt", _SETTINGS),
    "dfl_k20": ("Decision-focused learning, K = 20", _REGRET),
    "dfl_k5_k10_k15": ("Decision-focused learning, K = 5, 10 and 15", _REGRET),
    "dfl_extended": (
        "Decision-focused learning, extended",
        "Also controllers trained with log_kkt, and the decisions of an exact solver.",
    ),
    "dispatch_k15": ("Energy dispatch, K = 15", _DISPATCH),
    "dispatch_k5_k10": ("Energy dispatch, K = 5 and 10", _DISPATCH),
    "dispatch_extended": (
        "Energy dispatch, extended",
        "The formulation in which reserve may exceed what is asked for. OptGap is the relative "
        "distance of the cost to the optimum.",
    ),
    "grid": (
        "Optimal power flow over a year",
        "Each hour of a network whose lines bind, planned on a forecast and measured when it has "
        "come, beside the exact optimum for the same forecast, in the season of training. "
        "CostGap counts what an hour costs more than the exact plan; as forecasts err, Cost can be "
        f"below that of Exact. {_SPREAD}",
    ),
    "grid_other": (
        "Other hours than those of training",
        "Summer (away), which nothing was trained in, and weeks of winter in which each hour "
        f"begins where the one before it ended (warm). {_SPREAD}",
    ),
    "care": ("The gain split, by Gap", _CARE),
    "care_dual": ("The gain split, by the dual residual", _CARE),
    "care_hard": (
        "Equal care on the hard benchmarks",
        "Every learned method with both losses, as many steps and a learning rate of its own, "
        f"beside fixed cores of a grid without an edge. {_SPREAD}",
    ),
    "equal_time": (
        "Against Wide-DRS at equal time",
        "Settings in which a method is no worse than Wide-DRS is in the same time, and its error "
        "over that of Wide-DRS (geometric mean), by the median and the 95 % quantile of Dist over "
        "test instances. The error of Wide-DRS between two of its depths is interpolated, its "
        "logarithm linear in time; before its fastest and after its slowest depth it is the error "
        "there.",
    ),
    "shifts": (
        "On other data",
        "First the Gap of Wide-DRS tuned on the other data, then that of other solvers over it: "
        "geometric means over families, in which a ratio counts as a factor of "
        f"{LIMIT:g} at most. What is not tuned or trained there is of home. One seed.",
    ),
    "depths": (
        "For other depths",
        "The median of Dist over test instances after K steps. A row names the depth that a layer "
        "was trained for, or says that it was drawn at random; Wide-DRS is tuned for each depth. "
        "One seed.",
    ),
    "multiverse": (
        "RCDRS against the strongest, by reading",
        "Gap of the better RCDRS variant over that of the strongest baseline in each hard setting, "
        "and the geometric mean. A reading that changes no result of a block is left out of it. "
        "One seed.",
    ),
    "ablation_scales": (
        "Ablations, by scale",
        "The paper does not give the scale of its ablations: every variant at each. One seed.",
    ),
    "portfolio": (
        "Portfolios, at home and in other times",
        "Basis points a week; Turnover in percent. Utility is the objective with the returns and "
        "the risk that came, and Missed how much more of it the optimal decision would have had; "
        "Expected is the optimum as predicted, and Regret what the portfolio lacks to that. "
        f"{_SPREAD}",
    ),
    "portfolio_starts": (
        "Portfolios, cold and warm starts",
        "Each week is solved from zero, or goes on from the state in which the week before ended. "
        f"Basis points a week. {_SPREAD}",
    ),
    "peers": (
        "At equal accuracy, and at its best",
        "Times in ms of a whole batch on one core, where the median ObjErr is 1e-3; the rest is of "
        "each solver's most accurate setting. Bold: the fastest.",
    ),
    "dispatch_parameters": ("Parameters of the dispatch problem", "As configured for this run."),
    "protocol": ("Protocol", "What runs, on how many instances, from which seeds."),
    "benchmarks": (
        "Benchmarks",
        "Cone, number of variables n and of equalities m, and the condition number of A.",
    ),
    "hyperparameters": ("Hyperparameters", "As configured for this run."),
}


def title_of(table: str) -> tuple[str, str]:
    """Title and note; a table without an entry goes by its name."""
    return _TITLES.get(table, (table.replace("_", " ").capitalize(), ""))


def recipe_name(recipe: str) -> str:
    return "paper's recipe" if recipe == "paper" else recipe
