"""Every request is booked once, whatever was killed or torn."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tuneloop.core.budget import LlmQuota
from tuneloop.tools.llm_proxy.errors import ApiError
from tuneloop.tools.llm_proxy.ledger import Entry, Ledger, new_id, read_ledger, sums
from tuneloop.tools.llm_proxy.quota import Amount, Quota, amount_of


def entry(**more: Any) -> Entry:
    given = {"id": new_id(), "at": 1.0, "job": "j", "model": "m", "endpoint": "e", "outcome": "answered", "status": 200}
    return Entry.model_validate({**given, "tokens_in": 10, "tokens_out": 5, "cost": 0.5, **more})


def open_ledger(folder: Path) -> Ledger:
    return Ledger(folder / "ledger.jsonl", folder / "begun.jsonl")


def test_unbooked_requests_are_booked_at_the_next_start(tmp_path: Path) -> None:
    first = open_ledger(tmp_path)
    done, lost = entry(), entry(outcome="killed", estimated=True)
    for one in (done, lost):
        first.begin(one)
    first.write(done)
    for _ in range(2):
        open_ledger(tmp_path)
        assert list(read_ledger(tmp_path / "ledger.jsonl")) == [done, lost]


def test_torn_line_is_skipped(tmp_path: Path) -> None:
    first = open_ledger(tmp_path)
    one, two = entry(), entry()
    first.write(one)
    with (tmp_path / "ledger.jsonl").open("ab") as f:
        f.write(b'{"id": "torn", "at"')
    open_ledger(tmp_path).write(two)
    assert list(read_ledger(tmp_path / "ledger.jsonl")) == [one, two]


def test_full_disk_tears_no_line(tmp_path: Path) -> None:
    """A file system of 64 KiB in memory, in a mount namespace of its own."""
    code = """
import sys; from pathlib import Path
from tests.tools.llm_proxy.test_ledger import entry, open_ledger
from tuneloop.tools.llm_proxy.ledger import read_ledger
folder = Path(sys.argv[1]); ledger = open_ledger(folder); n = 0
try:
    while True: ledger.write(entry()); n += 1
except OSError: pass
(folder / "begun.jsonl").unlink()
print(n, len(list(read_ledger(folder / "ledger.jsonl"))), (folder / "ledger.jsonl").read_bytes()[-1:])
"""
    script = f"mount -t tmpfs -o size=64k none {tmp_path} && exec $0 -c '{code}' {tmp_path}"
    argv = ["unshare", "-rm", "sh", "-c", script, os.sys.executable]  # type: ignore[attr-defined]
    p = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": f"src:{Path.cwd()}"})
    assert p.returncode == 0, p.stderr
    wrote, read, end = p.stdout.split(maxsplit=2)
    assert (int(wrote) > 50, wrote, end.strip()) == (True, read, r"b'\n'")


def test_sums() -> None:
    rows = [
        entry(), entry(outcome="cached", cost=0.0), entry(outcome="refused", cost=None), entry(outcome="killed"),
        entry(outcome="failed", tries=0), entry(outcome="failed", tries=2, tokens_in=0, tokens_out=0, cost=0),
    ]  # fmt: skip
    found = sums(rows)
    assert (found.requests, found.tokens_in, found.tokens_out, found.cost) == (3, 20, 10, 1.0)
    assert (found.cached, found.refused, found.failed) == (1, 1, 3)
    assert sums([*rows, entry(cost=None)]).cost is None, "a sum without a part would be a lie"


@pytest.mark.parametrize("limit", [{"requests": 1}, {"tokens": 20}, {"money": 0.7}])
def test_quota_refuses_excess(limit: dict[str, Any]) -> None:
    quota = Quota("this job", LlmQuota(**limit))
    more = amount_of(entry())
    quota.check(more)
    quota.reserved += more
    with pytest.raises(
        ApiError, match=f"this job may use {next(iter(limit.values()))} {next(iter(limit))} in all, 0 are used"
    ):
        quota.check(more)
    quota.reserved -= more
    quota.used += more
    with pytest.raises(ApiError):
        quota.check(more)
    quota.check(Amount())
