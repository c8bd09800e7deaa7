"""Layerwise-DRS: a learned open-loop schedule, the same for every instance."""

from __future__ import annotations

from typing import Any

#: The controller without its eyes: one learned action a step, free in the global ranges.
CHANGES: dict[str, Any] = {"encoder": "schedule", "envelope": None}
