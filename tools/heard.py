"""What models gave to a data script that asked them, by the ledger: nothing that the script says is believed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tuneloop.core.job import Exit
from tuneloop.core.layout import RunFolder
from tuneloop.tools.llm_proxy.launcher import endpoint_name
from tuneloop.tools.llm_proxy.ledger import Entry, read_ledger

GONE = 75  # exit status by which the client in the engine says that the endpoint is at fault
TOO_MANY = 429
CURES = {
    "upstream_refused_key": "it refuses the key; right is one in OPENAI_API_KEY that it takes",
    "upstream_unreachable": "it cannot be reached; right is OPENAI_API_BASE, and an endpoint that runs",
    "insufficient_quota": "its account is used up",
    "limit_reached": "what the job or the run may use is used up; write it with fewer requests, or without models",
    "model_not_allowed": "it asks a model that the run does not name; right are those of STRONG_MODEL_POOL and WEAK_MODEL_POOL",
}


def asked(run: RunFolder, job: Path) -> list[Entry]:
    """The requests of one attempt of a job."""
    name, _, _ = job.name.rpartition(".")
    began = (job / "command.json").stat().st_mtime
    own = endpoint_name(run, job.parent, name)
    return [entry for entry in read_ledger(run.ledger) if entry.job == own and entry.at >= began - 0.001]


def gone(run: RunFolder, job: Path, end: Exit) -> str:
    """Why the models' endpoint ended a script, "" where it did not."""
    if end.code != GONE:
        return ""
    faults = [entry for entry in asked(run, job) if at_fault(entry)]
    if not faults:
        return ""
    return f"the models' endpoint failed {len(faults)} times: {reason(faults)}; then `tuneloop resume`: no answer is paid twice"


def in_vain(run: RunFolder, job: Path) -> str:
    """What is wrong with a script that asked models and got no answer at all, "" with any other."""
    entries = asked(run, job)
    if not entries or any(entry.outcome in ("answered", "cached", "cut") for entry in entries):
        return ""
    return f"process_data.py asked models {len(entries)} times and got no answer: {reason(entries)}."


def at_fault(entry: Entry) -> bool:
    """Whether a request failed through the provider's fault."""
    return entry.outcome == "failed" and (entry.status >= 500 or entry.status in (404, TOO_MANY))


def reason(entries: list[Entry]) -> str:
    """The most frequent one, with a cure where there is one."""
    (code, status), _ = Counter((entry.code, entry.status) for entry in entries).most_common(1)[0]
    return CURES.get(code, f"{status} {code}".strip())
