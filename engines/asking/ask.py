"""Ask models a list of things through the job's door: `python -I ask.py JOB.json`. Standard library only.

JOB.json: out, workers, requests (JSON Lines: id, key, path, body, spare). `key` names a request by its content: what is
in `out/answers.jsonl` under it was paid for and is not asked again. `spare`: fields of the body that may be left out
where the endpoint refuses them. `out/results.json`, written last: {"results": [{id, text, finish, model, why}]}; `text` null
where there is no answer, and `why` says why. Prints progress as JSON lines.

Exit status 1 with one line where the endpoint, not a request, is at fault: what was answered until then stays.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

TRIES = 3  # the proxy has tried again by itself before it says that the provider is at fault
PATIENCE = 120.0  # seconds while the proxy itself is away
PAUSE, LONGEST_PAUSE = 0.5, 20.0
WAIT = 600.0  # seconds for one answer
ANSWER_BYTES = 32 << 20
SPENT = "limit_reached"
FATAL = ("upstream_refused_key", "model_not_allowed", "not_allowed", "unknown_endpoint", "wrong_token")
RENAMED = {"max_tokens": "max_completion_tokens"}


class EndpointError(Exception):
    """Asking anything else would end the same way."""


class NoAnswer(Exception):  # noqa: N818 - an outcome
    """One request has none; the others may."""


class Asker:
    """What all requests share: the door, what was answered, what this endpoint does not know."""

    def __init__(self, out: Path, total: int) -> None:
        self.url, self.token = os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"]
        self.file, self.lock = out / "answers.jsonl", threading.Lock()
        self.left_out: set[str] = set()
        self.renamed: set[str] = set()
        self.spent, self.done, self.total = "", 0, total

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request's outcome, written down when it has cost something. Raises EndpointError."""
        found: dict[str, Any] = {"id": request["id"], "text": None, "finish": "", "model": "", "why": self.spent}
        if not self.spent:
            try:
                heard = self.heard(request)
                found |= heard
                self.keep({"key": request["key"], **heard})
            except NoAnswer as e:
                found["why"] = str(e)[:500]
        self.tell()
        return found

    def heard(self, request: dict[str, Any]) -> dict[str, str]:
        """Text, how it ended, and who says to have written it. Raises NoAnswer or EndpointError."""
        failed, pause, until = 0, PAUSE, time.monotonic() + PATIENCE
        while True:
            body = self.body(request)
            try:
                return said(self.post(request["path"], body))
            except urllib.error.HTTPError as e:
                status, code, text = trouble(e)
                if status == 400 and (self.adapt(request, text) or body != self.body(request)):
                    continue
                if code == SPENT:
                    self.spent = f"{SPENT}: {text}"
                    raise NoAnswer(self.spent) from e
                if code in FATAL or status == 404:
                    raise EndpointError(text) from e
                if status < 500 and status not in (408, 409, 425, 429):
                    raise NoAnswer(f"{status} {code}: {text}") from e
                failed += code != "interrupted"
                if failed >= TRIES or time.monotonic() > until:
                    raise EndpointError(text) from e
            except (OSError, http.client.HTTPException) as e:
                if time.monotonic() > until:
                    raise EndpointError(f"the model proxy does not answer: {e}") from e
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def body(self, request: dict[str, Any]) -> dict[str, Any]:
        """The request as this endpoint takes it."""
        kept = {
            name: value for name, value in request["body"].items() if name not in self.left_out & {*request["spare"]}
        }
        return {RENAMED[name] if name in self.renamed else name: value for name, value in kept.items()}

    def adapt(self, request: dict[str, Any], text: str) -> bool:
        """Whether a field was refused that goes by another name here, or need not be there."""
        named = [
            name for name in self.body(request) if f"'{name}'" in text or f'"{name}"' in text or f"`{name}`" in text
        ]
        for name in named:
            if name in RENAMED and name not in self.renamed and RENAMED[name] in text:
                self.renamed.add(name)
                return True
            if name in request["spare"] and name not in self.left_out:
                self.left_out.add(name)
                return True
        return False

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """The answer's JSON. Raises OSError, HTTPException, NoAnswer."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        asked = urllib.request.Request(f"{self.url}/{path}", json.dumps(body).encode(), headers)  # noqa: S310 - our door
        with urllib.request.urlopen(asked, timeout=WAIT) as answer:  # noqa: S310
            data = answer.read(ANSWER_BYTES + 1)
        try:
            return json.loads(data)
        except ValueError as e:
            raise NoAnswer("the endpoint answered something other than JSON") from e

    def keep(self, row: dict[str, Any]) -> None:
        """A line of its own, in one write."""
        with self.lock, self.file.open("ab", buffering=0) as f:
            f.write(json.dumps(row).encode() + b"\n")

    def tell(self) -> None:
        """Progress."""
        with self.lock:
            self.done += 1
            print(json.dumps({"done": self.done, "total": self.total, "unit": "answers"}), flush=True)


def said(answer: Any) -> dict[str, str]:
    """A chat's or a completion's first choice. Raises NoAnswer."""
    try:
        choice = answer["choices"][0]
        text = choice["message"]["content"] if "message" in choice else choice["text"]
        finish, model = str(choice.get("finish_reason") or ""), str(answer.get("model") or "")
        return {"text": text if isinstance(text, str) else "", "finish": finish, "model": model[:200]}
    except (LookupError, TypeError, AttributeError) as e:
        raise NoAnswer("the endpoint's answer has no choices") from e


def trouble(error: urllib.error.HTTPError) -> tuple[int, str, str]:
    """Status, code and words of a refusal."""
    try:
        told = json.loads(error.read(1 << 16))["error"]
        return error.code, str(told.get("code") or ""), str(told.get("message") or "")[:500]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, http.client.HTTPException):
        return error.code, "", f"status {error.code}"


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
