"""RCDRS-Light and RCDRS-Glance: a schedule and a correction from feedback, at little cost.

Two small layers on what the step computes anyway, without memory and without ``|A z - b|``, which
would need a product of its own.  Its last layer starts at zero: the controller is its schedule
until it learns a correction.  The first looks at every step, the second at every fourth, which
loses next to nothing and costs a quarter.  Chosen on validation data: `workflow/choices.md`.
"""

from __future__ import annotations

from typing import Any

CHANGES: dict[str, Any] = {
    "encoder": "direct",
    "hidden": 16,
    "features": ["con", "dz", "obj", "dobj", "alpha", "beta", "elapsed"],
    "controls": ["alpha", "beta"],
    "scheduled": True,
}
GLANCE: dict[str, Any] = CHANGES | {"period": 4}
