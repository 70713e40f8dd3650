"""Fork one job after the other from a process that has imported everything, as a warm engine does.

`python fork_jobs.py MEASURE.py JOB.json...` writes `{"job": .., "status": .., "seconds": ..}` for each.
"""

import gc
import json
import os
import runpy
import sys
import time
from pathlib import Path

script, *jobs = sys.argv[1:]
sys.path[0] = str(Path(script).parent)
runpy.run_path(script, run_name="preload")
gc.freeze()
for job in jobs:
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        sys.argv[:] = [script, job]
        os.chdir(json.loads(Path(job).read_text())["out"])
        try:
            runpy.run_path(script, run_name="__main__")
        finally:
            sys.stdout.flush()
            os._exit(1 if sys.exc_info()[0] else 0)
    status = os.waitpid(child, 0)[1]
    sys.stdout.write(json.dumps({"job": job, "status": status, "seconds": time.monotonic() - began}) + "\n")
    sys.stdout.flush()
