"""What a plan is worth in the hour that comes: every metric one number per hour."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from rcdrs.experiments.opf.model import HourProgram
from rcdrs.solver.readout import equality

#: The acceptance tests: of a plan for the forecast, and of the hour that comes.
ACCEPTED = {"CostGap": 0.01, "Eq": 0.01, "Over": 0.05, "Shed": 0.01}


class Operation(NamedTuple):
    """What becomes of a plan in the realised hour."""

    cost: Tensor  # dollars
    Over: Tensor  # of a line beyond its limit, over the limit: the worst line
    Shed: Tensor  # load that is not served, over the load
    Curt: Tensor  # renewable power that is not used, over what there is


def operate(program: HourProgram, x: Tensor) -> Operation:
    r"""Carry out plans x (batch, n), of scaled variables, in the realised hour.

    Generation is set, and as much is shed and curtailed as was planned, if there is so much.  What
    then is missing (or left over), of forecast errors and of a plan that does not add up, all
    generators make good in proportion to what each can add (or take back); beyond that, load is
    shed (or power curtailed) everywhere alike.  Flows follow, and cost

        cost'g + price_curtailment'k + price_shed'e + price_overload' [|f| - limit]_+
    """
    model, prices = program.model, program.model.network.prices
    load, renewable = program.realised
    plan = model.plan(x)
    generation = plan.generation.clamp(min=0).minimum(model.limits)
    curtailed = plan.curtailment.clamp(min=0).minimum(renewable)
    demand = load[:, model.loaded]
    shed = plan.shedding.clamp(min=0).minimum(demand)
    served, used = demand - shed, renewable - curtailed
    missing = _total(served) - _total(used) - _total(generation)

    spare = model.limits - generation
    added = missing.clamp(min=0).minimum(_total(spare))
    taken = (-missing).clamp(min=0).minimum(_total(generation))
    generation = generation + spare * _share(added, spare) - generation * _share(taken, generation)
    shed = shed + served * _share(missing.clamp(min=0) - added, served)
    curtailed = curtailed + used * _share((-missing).clamp(min=0) - taken, used)

    injected = torch.cat([generation, curtailed, shed], dim=1) @ model.injected.mT
    flow = (injected - model.net(program.realised)) @ model.equations[1:].mT
    beyond = (flow.abs() - model.lines).clamp(min=0)
    cost = (
        (generation * model.costs).sum(-1, keepdim=True)
        + prices.curtailment * _total(curtailed)
        + prices.shed * _total(shed)
        + prices.overload * _total(beyond)
    )
    return Operation(
        cost=cost.squeeze(-1),
        Over=(beyond / model.lines).amax(-1),
        Shed=(_total(shed) / (1 + _total(load))).squeeze(-1),
        Curt=(_total(curtailed) / (1 + _total(renewable))).squeeze(-1),
    )


def measure(program: HourProgram, x: Tensor, best: Tensor) -> dict[str, Tensor]:
    """Every metric of plans x, beside those of the exact optimum for the same forecast."""
    seen, exact = operate(program, x), operate(program, best)
    value, lowest = ((program.c * plan).double().sum(-1) for plan in (x, best))
    found = {
        "Cost": seen.cost / 1000,  # thousand dollars
        # The positive part: a plan that errs may cost less than the optimum for the forecast.
        "CostGap": ((seen.cost - exact.cost) / exact.cost.clamp(min=1)).clamp(min=0),
        # Of the problem that is solved, of either sign.
        "OptGap": ((value - lowest).abs() / (1 + lowest.abs())).to(x),
        "Eq": equality(program, x),
        "Over": seen.Over,
        "Shed": seen.Shed,
        "Curt": seen.Curt,
    }
    passed = torch.stack([found[name] <= limit for name, limit in ACCEPTED.items()]).all(0)
    return found | {"Pass": passed.to(x)}


def expected_cost(program: HourProgram, x: Tensor) -> Tensor:
    """What plans x come to if every hour is as forecast, in thousand dollars."""
    return operate(replace(program, realised=program.forecast), x).cost / 1000


def _total(power: Tensor) -> Tensor:
    return power.sum(-1, keepdim=True)


def _share(part: Tensor, of: Tensor) -> Tensor:
    """``part / total``; nothing of nothing."""
    total = _total(of)
    return torch.where(total > 0, part / total.clamp(min=1e-9), 0)
