"""Axes: from values to pixels, and where the ticks stand."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
#: Multiples of powers of ten that may bear a tick, from few to many.
_MULTIPLES = ((1,), (1, 3), (1, 2, 5), (1, 2, 3, 4, 5, 7))


@dataclass(frozen=True)
class Scale:
    """A linear or logarithmic axis from the pixel `start` to the pixel `end`."""

    low: float
    high: float
    log: bool
    start: float
    end: float

    @staticmethod
    def over(values: Iterable[float], log: bool, start: float, end: float) -> Scale:
        """Wide enough for all values, with a little room; what has no logarithm does not count."""
        shown = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
        low, high = (min(shown), max(shown)) if shown else (1.0, 10.0)
        if log:
            room = max(0.06 * math.log10(high / low), 0.02)
            return Scale(low / 10**room, high * 10**room, log, start, end)
        # What hardly varies is drawn as such.
        room = max(0.06 * (high - low), 0.02 * max(abs(low), abs(high))) or 0.5
        return Scale(low - room, high + room, log, start, end)

    def __call__(self, value: float) -> float:
        """The pixel of a value; outside of the axis, the nearer end."""
        if math.isnan(value):
            return math.nan
        value = min(max(value, self.low), self.high)
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high

    def ticks(self) -> list[float]:
        return self._log_ticks() if self.log else self._linear_ticks()

    def _log_ticks(self) -> list[float]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for multiples in _MULTIPLES:
            candidates = (m * 10.0**e for e in range(first, last + 1) for m in multiples)
            if len(found := [tick for tick in candidates if self.holds(tick)]) > 2:
                return found[:: math.ceil(len(found) / 6)]
        return self._linear_ticks()

    def _linear_ticks(self) -> list[float]:
        rough = (self.high - self.low) / 4
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [number * step for number in range(first, last + 1)]


def tick_label(value: float) -> str:
    """``0.05``, ``20``, ``10⁻⁴`` or ``3·10⁻⁴``."""
    if value == 0 or 1e-2 <= abs(value) < 1e4:
        return f"{value:.6g}"
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    power = "10" + str(int(exponent)).translate(_SUPERSCRIPTS)
    mantissa = mantissa.removesuffix(".0")
    return power if mantissa == "1" else f"{mantissa}·{power}"
