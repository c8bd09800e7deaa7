"""RCDRS-Light: a schedule and a correction from feedback that costs next to nothing.

Two small layers on what the step computes anyway, without memory and without ``|A z - b|``, which
would need a product of its own.  Its last layer starts at zero: the controller is its schedule
until it learns a correction.  Chosen on validation data of all nine cases:
`workflow/choices.md`.
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
