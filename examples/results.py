"""What a finished run brought: `python examples/results.py RUN` reads its folder, nothing is run."""

import sys

from tuneloop import run

result = run(sys.argv[1])
for experiment in result.journal.experiments:
    score = f"{experiment.score.value:.1f}" if experiment.score else "-"
    print(f"{experiment.number}  {score:>5}  {experiment.outcome:<9} {experiment.hypothesis.statement}")
print("best:", result.best)
if result.report:
    best = result.report["best"]
    print("sealed test:", result.report["baseline"]["test"], "->", best["test"], "delivered:", best["delivered"])
