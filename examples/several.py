"""Several runs in one process: `python examples/several.py` asks which of two seeds brings more."""

import asyncio

from tuneloop import RunSpec, arun


async def main() -> None:
    """Two at a time."""
    specs = [RunSpec(benchmark="wordproblems", base_model="tiny", loop_n=1, seed=seed) for seed in (1, 2)]
    for result in await asyncio.gather(*(arun(spec) for spec in specs)):
        best = result.journal.best
        print(result.id, result.state, best.score.value if best and best.score else "nothing better")


asyncio.run(main())
