"""Write made-up records to records.csv, as a substitute for a device's own records."""

import csv
import random
from pathlib import Path

rng = random.Random(0)
with Path("records.csv").open("w", newline="", encoding="utf-8") as file:
    lines = csv.writer(file)
    lines.writerow(("first", "second", "label"))
    for _ in range(600):
        label = rng.randrange(2)
        lines.writerow((round(rng.gauss(2 * label - 1, 1), 3), round(rng.gauss(1 - 2 * label, 1), 3), label))
