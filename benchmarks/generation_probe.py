"""Runs in the OpenCompass engine: an evaluation job with a clock around `generate`; `generation_probe.py JOB.json OUT`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "engines" / "opencompass"))
from measure import main  # type: ignore[import-not-found]
from oc_models import Local  # type: ignore[import-not-found]

spent = 0.0
plain = Local.generate


def timed(self: object, *args: object, **kwargs: object) -> object:
    """`generate` as it is, its seconds added up."""
    global spent  # noqa: PLW0603 - a script's one number
    began = time.perf_counter()
    found = plain(self, *args, **kwargs)
    spent += time.perf_counter() - began
    return found


if __name__ == "__main__":
    Local.generate = timed
    out = Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    job = {**json.loads(Path(sys.argv[1]).read_text()), "out": str(out)}
    (out / "job.json").write_text(json.dumps(job))
    main(out / "job.json")
    print("\n" + json.dumps({"generation": spent}))
