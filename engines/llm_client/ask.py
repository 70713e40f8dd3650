"""Ask models a list of things through the job's door: `python ask.py JOB.json`. Standard library only.

JOB.json: out, workers, requests (JSON Lines: id, key, path, body, spare). `key` names a request by its content: what is
in `out/answers.jsonl` under it was paid for and is not asked again. `spare`: fields of the body that may be left out
where the endpoint refuses them. `out/results.json`, written last: {"results": [{id, text, finish, model, why}]}; `text` null
where there is no answer, and `why` says why. Prints progress as JSON lines.

Exit status 1 with one line where the endpoint, not a request, is at fault, or what may be spent is spent: what was
answered until then stays, results there are none.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tuneloop_models.endpoint import Door, Down, EndpointError, NoAnswer, Spent

TRIES = 3  # the proxy has tried again by itself before it says that the provider is at fault


class Asker:
    """What all requests share: the door, what was answered."""

    def __init__(self, out: Path, total: int) -> None:
        self.door, self.file, self.lock = Door(TRIES), out / "answers.jsonl", threading.Lock()
        self.spent, self.down, self.done, self.total = "", "", 0, total

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request's outcome, written down when it has cost something. Raises EndpointError."""
        if self.down:  # said here, by the one who met it: this thread may be ahead of the one that ends the job
            raise EndpointError(self.down)
        found: dict[str, Any] = {"id": request["id"], "text": None, "finish": "", "model": "", "why": self.spent}
        if not self.spent:
            try:
                said = self.door.ask(request["path"], request["body"], tuple(request["spare"]))
                heard = {"text": said.text, "finish": said.finish, "model": said.model}
                found |= heard
                self.keep({"key": request["key"], **heard})
            except (Down, EndpointError) as e:
                self.down = str(e)
                raise EndpointError(self.down) from e
            except NoAnswer as e:
                found["why"] = str(e)[:500]
                self.spent = found["why"] if isinstance(e, Spent) else self.spent
        self.tell()
        return found

    def keep(self, row: dict[str, Any]) -> None:
        """A line of its own, in one write."""
        with self.lock, self.file.open("ab", buffering=0) as f:
            f.write(json.dumps(row).encode() + b"\n")

    def tell(self) -> None:
        """Progress."""
        with self.lock:
            self.done += 1
            print(json.dumps({"done": self.done, "total": self.total, "unit": "answers"}), flush=True)


def known(file: Path) -> dict[str, dict[str, Any]]:
    """Answers that were paid for, by key; a torn line is left out, and ended so that the next one stands alone."""
    if not file.is_file():
        return {}
    data = file.read_bytes()
    if data and not data.endswith(b"\n"):
        with file.open("ab") as f:
            f.write(b"\n")
    found = {}
    for line in data.splitlines():
        with contextlib.suppress(ValueError, TypeError, KeyError):
            row = json.loads(line)
            found[row["key"]] = {**{name: str(row[name]) for name in ("text", "finish", "model")}, "why": ""}
    return found


def main(job_file: Path) -> int:
    """Everything that is not answered yet, then the results."""
    job = json.loads(job_file.read_text(encoding="utf-8"))
    out = Path(job["out"])
    (out / "results.json").unlink(missing_ok=True)
    requests = [json.loads(line) for line in Path(job["requests"]).read_text(encoding="utf-8").splitlines()]
    before = known(out / "answers.jsonl")
    results = {one["id"]: {"id": one["id"], **before[one["key"]]} for one in requests if one["key"] in before}
    asker = Asker(out, len(requests))
    asker.done = len(results)
    waiting = [one for one in requests if one["id"] not in results]
    with ThreadPoolExecutor(max_workers=job["workers"]) as pool:
        asked = [pool.submit(asker.answer, one) for one in waiting]
        try:
            for future in asked:
                found = future.result()
                results[found["id"]] = found
        except EndpointError as e:
            pool.shutdown(wait=False, cancel_futures=True)
            print(f"error: {e}", flush=True)
            os._exit(1)
    if asker.spent:
        answered = sum(one["text"] is not None for one in results.values())
        print(f"error: answered {answered} of {len(requests)} questions: {asker.spent}", flush=True)
        return 1
    leave(out, {"results": [results[one["id"]] for one in requests]})
    return 0


def leave(out: Path, value: Any) -> None:
    """All or nothing."""
    part = out / "results.part"
    with part.open("w", encoding="utf-8") as f:
        json.dump(value, f, allow_nan=False)
        f.flush()
        os.fsync(f.fileno())
    part.replace(out / "results.json")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
