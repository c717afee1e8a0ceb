"""Run decided claims of the results pages again with new seeds, and write which verdicts change.

The claims are drawn at random from those whose runs cost at most a minute of processor time per seed. Each gets as many
new seeds as it has stored ones. The table goes beside the pages, and `sottovoce reproduce --pages` counts it in the
index. `--runs` keeps finished runs, so that an interrupted call can be resumed.

    python benchmarks/claims_again.py [DATA] [--results FOLDER] [--count N] [--seed N] [--runs FILE] [--write] [--smoke]
"""

import argparse
import os
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from sottovoce_lab.cli.simulate import limit_blas_threads
from sottovoce_lab.papers.again import FILE, DecidedClaim, compare, draw_claims, list_decided, list_new_runs, write_rows
from sottovoce_lab.papers.cells import MIN_SEEDS
from sottovoce_lab.papers.runs import collect_outcomes


def main() -> None:
    """Run the drawn claims again, and print or write the table."""
    limit_blas_threads()
    options = _options()
    with TemporaryDirectory() as folder:
        runs = options.runs or Path(folder) / "runs.jsonl"
        rows = []
        for claim in _claims(options):
            if keys := list_new_runs(claim, options.data):
                rows.append(compare(claim, collect_outcomes(keys, runs, lambda *_: None)))
                print(
                    f"{claim.name}: {claim.finding.panel}: {claim.finding.claim}: {rows[-1].verdict} → {rows[-1].again}"
                )
    if options.write:
        write_rows(rows, options.results / FILE)


def _claims(options: argparse.Namespace) -> list[DecidedClaim]:
    """Return the claims to run again: with --smoke, a claim on data that need no file, with few seeds."""
    if not options.smoke:
        return draw_claims(list_decided(options.results), options.count, options.seed)
    claim = min((c for c in list_decided(options.results) if c.finding.panel == "artificial"), key=_count_runs)
    return [replace(claim, cells={key: replace(c, measures=c.measures[:MIN_SEEDS]) for key, c in claim.cells.items()})]


def _count_runs(claim: DecidedClaim) -> int:
    return sum(len(cell.measures) for cell in claim.cells.values())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    folder = Path(os.environ.get("SOTTOVOCE_DATA", "../shared/data"))
    parser.add_argument("data", type=Path, nargs="?", default=folder, help="folder that contains the data sets")
    parser.add_argument("--results", type=Path, default=Path("docs/results"), help="folder of the stored results")
    parser.add_argument("--count", type=int, default=20, help="number of claims")
    parser.add_argument("--seed", type=int, default=65, help="seed of the draw")
    parser.add_argument("--runs", type=Path, help="file with one line per run; runs that it has are not repeated")
    parser.add_argument("--write", action="store_true", help="write the table beside the results' pages")
    parser.add_argument("--smoke", action="store_true", help="run only one claim, on artificial data, with few seeds")
    return parser.parse_args()


if __name__ == "__main__":
    main()
