"""`python -m tests.chaos --seed 1 --minutes 5`: break everything and check that nothing is lost."""

import argparse
import json
import sys
from pathlib import Path

from tests.chaos.report import as_text
from tests.chaos.run import Outcome, run
from tests.chaos.seeds import parse, run_many


def main() -> int:
    options = _options()
    if options.seeds:
        seeds = parse(options.seeds)
        return run_many(seeds, minutes=options.minutes, at_once=options.at_once, logs=options.logs)
    print(f"Chaos with seed {options.seed} for {options.minutes:g} min", flush=True)
    outcome = run(seed=options.seed, seconds=60 * options.minutes, keep_logs_in=options.logs)
    print(as_text(outcome.figures))
    if options.report is not None:
        _write(options.report, outcome, seed=options.seed)
    if outcome.violations:
        print("\nWhat was broken:", *outcome.log, sep="\n    ")
        print(f"\n{len(outcome.violations)} violations:", *outcome.violations, sep="\n  - ")
        return 1
    print("\nNothing was lost, doubled, cut short or stuck.")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", default="", help="many runs, such as 1-20; ends with a table")
    parser.add_argument("--at-once", type=int, default=1, help="of the runs of --seeds")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--report", type=Path, help="write the figures to this file, as JSON")
    parser.add_argument(
        "--logs", type=Path, help="copy the logs of all processes to this directory"
    )
    return parser.parse_args()


def _write(file: Path, outcome: Outcome, *, seed: int) -> None:
    text = {
        "seed": seed,
        "violations": outcome.violations,
        **outcome.figures,
        "log": outcome.log,
    }
    file.write_text(json.dumps(text, indent=2))


if __name__ == "__main__":
    sys.exit(main())
