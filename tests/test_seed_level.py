"""Seed-level CSVs are read whole: a damaged one is named, with the line and the column."""

from __future__ import annotations

import re

import pytest

from rcdrs.reporting.results import read_rows

HEADER = "experiment,family,scale,K,seed,method,recipe,Gap,r_p"
LINE = "synthetic,socp,hard,20,0,F-DRS,-,0.5,0.25"
OTHER = LINE.replace("F-DRS", "Grid-DRS")
TIMES = (
    f"{HEADER.replace('recipe,Gap,r_p', 'time_ms,device')}\nsynthetic,qp,small,5,0,F-DRS,1,cpu\n"
)
TRACE = (
    f"{HEADER.replace('Gap,r_p', 'series,step,low')}\ntrace,qp,small,5,0,L-PDHG,paper,merit,0,1\n"
)
DAY = 'schedule,side,part,hour,value\n"Grid-DRS, K = 15",supply,Generator 1,0,1.3\n'
SOUND = {
    "synthetic/socp-hard-0-K20/F-DRS@paper.csv": f"{HEADER}\n{LINE}\n",
    "synthetic/socp-hard-0-K20.csv": f"{HEADER}\n{LINE}\n{OTHER}\n",
    "anything.csv": f"{HEADER}\n{LINE}\n{LINE.replace('hard', 'small')}\n",
    "empty_cell.csv": f"{HEADER}\n{LINE}\n{OTHER.replace('0.25', '')}\n",
    "mine/socp-easy-0-K20.csv": f"{HEADER}\n{LINE}\n",
    "timing/qp-small-0.csv": TIMES,
    "traces/qp-small-0-K5.csv": TRACE,
    "traces/dispatch-inequality-0-K15.csv": DAY,
}


def csv_file(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("name", SOUND)
def test_sound_rows_are_read(tmp_path, name):
    assert len(read_rows([csv_file(tmp_path, name, SOUND[name])]))


ROWS = "synthetic/socp-hard-0-K20/F-DRS@paper.csv"


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        (ROWS, "", "it is empty"),
        (ROWS, f"{HEADER}\n", "it has no rows"),
        (ROWS, f"{HEADER}\n{LINE}", "its last line is cut off"),
        (ROWS, f"{HEADER}\n{LINE[:-6]}\n", "line 2 has 8 values, expected 9"),
        (ROWS, f"{HEADER}\n{LINE},1\n", "line 2 has 10 values, expected 9"),
        (ROWS, f"{HEADER}\n{LINE}\n\n", "line 3 has 0 values"),
        (ROWS, f"{HEADER}\n{LINE}\n{LINE}\n", "line 3 is of the same run as line 2"),
        (
            ROWS,
            f"{HEADER}\n{LINE.replace('0.5', 'half')}\n",
            "line 2: Gap is 'half'",
        ),
        (ROWS, f"{HEADER}\n{LINE.replace('0.5', 'inf')}\n", "line 2: Gap is 'inf'"),
        (ROWS, f"{HEADER}\n{LINE.replace('0.5', 'nan')}\n", "line 2: Gap is 'nan'"),
        (
            ROWS,
            f"{HEADER}\n{LINE.replace(',20,', ',20.0,')}\n",
            "K is '20.0', expected a whole",
        ),
        (ROWS, f"{HEADER}\n{LINE.replace(',0,', ',,')}\n", "seed is '', expected a whole number"),
        (ROWS, f"{HEADER}\n{LINE.replace('F-DRS', '')}\n", "line 2: method is empty"),
        (ROWS, f"{HEADER}\n{OTHER}\n", "line 2 is of method Grid-DRS, expected F-DRS, as the file"),
        (
            ROWS,
            f"{HEADER}\n{LINE.replace('synthetic', 'dfl')}\n",
            "of experiment dfl, exp",
        ),
        (ROWS, f"{HEADER}\n{LINE.replace('socp', 'qp')}\n", "of case qp-hard, expected socp-hard"),
        (ROWS, f"{HEADER}\n{LINE.replace(',0,', ',1,')}\n", "of seed 1, expected 0"),
        (ROWS, f"{HEADER}\n{LINE.replace(',20,', ',10,')}\n", "of K 10, expected 20"),
        (
            ROWS,
            f"{HEADER}\n{LINE.replace('-,', 'log_kkt,')}\n",
            "of recipe log_kkt, expected",
        ),
        (ROWS, f"{HEADER.replace('seed', 'sed')}\n{LINE}\n", "it has no column seed"),
        (ROWS, f"{HEADER.replace('r_p', 'Gap')}\n{LINE}\n", "a column is there twice"),
        (ROWS, bytes(range(256)), "UnicodeDecodeError"),
        (ROWS, b"\0\0\0\n\0", "cut off"),
        (ROWS, b"PK\3\4\n", "it has no column"),
        ("a.csv", "x,y\n1,2\n", "it has no column experiment"),
        ("timing/qp-small-1.csv", TIMES, "line 2 is of seed 0, expected 1"),
        ("timing/qp-small-0.csv", TIMES.replace(",1,", ",fast,"), "time_ms is 'fast'"),
        ("traces/qp-small-0-K6.csv", TRACE, "line 2 is of K 5, expected 6"),
        ("traces/dispatch-turned-0-K15.csv", DAY.replace("1.3", "much"), "value is 'much'"),
    ],
)
def test_damaged_rows_are_named(tmp_path, name, text, told):
    path = csv_file(tmp_path, name, text)
    message = rf"{re.escape(name)} is not a readable CSV \(.*{told}.*\): delete it and run the work"
    with pytest.raises(ValueError, match=message):
        read_rows([path])
