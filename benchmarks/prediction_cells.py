"""What is predicted of placements against what they do, on a real cluster whose nodes have their own CPU and links.

    python benchmarks/prediction_cells.py run [--records DIRECTORY] [--first 4] [--only TEXT]
    python benchmarks/prediction_cells.py list

A cell is a topology under a placement with nodes held to some cores and links; `cells/chosen.py` has them all. `run`
measures them and keeps raw records, a file for each start of a topology, in DIRECTORY; what is there is not run again.
In one start the limits change while it runs; each is measured with as many trees as go, then at 70 % of that rate.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from cells.chosen import starts
from cells.running import file_of, run
from results import ROOT

RECORDS = ROOT / "build" / "prediction-cells"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "list"))
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--first", type=int, default=None, help="only so many starts")
    parser.add_argument("--only", default="", help="only starts with this in their name")
    options = parser.parse_args()
    chosen = [start for start in starts() if options.only in start.name][: options.first]
    if options.what == "list":
        for start in chosen:
            print(start.name, "" if file_of(options.records, start).exists() else "to do")
        return
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    run(chosen, options.records)


if __name__ == "__main__":
    main()
