"""``python -m tests.faults``: the campaign, and a report of it."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = """examples:
  python -m tests.faults                           # every case, and 20 kills
  python -m tests.faults --seed 7 --kills 100      # other places and moments, more of them
  python -m tests.faults --match checkpoint        # only cases with this word in their name
  python -m tests.faults --kills 0                 # only what needs no minutes
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults",
        description="Damage files, misuse arguments and kill runs; every fault must be named.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=0, help="of random places and moments (0)")
    parser.add_argument("--kills", type=int, default=20, help="of running processes (20)")
    parser.add_argument("--match", default="", metavar="WORD", help="in the names of cases")
    options = parser.parse_args()
    seed, kills = str(options.seed), str(options.kills)
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "-rf"]
    command += ["--no-header", "--tb=short", "-m", "" if options.kills else "not kills"]
    command += ["-k", options.match] if options.match else []
    with subprocess.Popen(
        [*command, str(Path(__file__).parent)],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"FAULTS_SEED": seed, "FAULTS_KILLS": kills},
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        said = []
        for line in run.stdout:
            print(line, end="", flush=True)
            said.append(line)
    return report("".join(said), run.returncode, options)


def report(said: str, code: int, options: argparse.Namespace) -> int:
    """How many were tried and passed; each that failed, with how to repeat it."""
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|error)", said)}
    tried = sum(counts.values())
    print(f"\ntried {tried}, passed {counts.get('passed', 0)}, seed {options.seed}")
    for name in re.findall(r"^(?:FAILED|ERROR) (tests/faults/.*?)(?: - .*)?$", said, re.MULTILINE):
        start = f"FAULTS_SEED={options.seed} FAULTS_KILLS={options.kills} python -m pytest -n 0"
        print(f"  failed: {start} -m '' {name!r}")
    return code


if __name__ == "__main__":
    sys.exit(main())
