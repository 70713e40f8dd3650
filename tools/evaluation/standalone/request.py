"""Begin an evaluation as a process of its own: it outlives who asked, and refuses as it would in a terminal."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, ConfigDict

import tuneloop
from tuneloop.core.errors import ToolError
from tuneloop.core.files import digest, write_json
from tuneloop.core.layout import Home
from tuneloop.core.locks import exclusive, is_locked
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.detached import start_command_line, wait_accepted
from tuneloop.tools.benchmark_items import resolve
from tuneloop.tools.evaluation.standalone.record import EvaluationRecord
from tuneloop.tools.evaluation.standalone.subjects import AT, adapter_config, file_safe_name
from tuneloop.tools.housekeeping.disk import remove_path
from tuneloop.tools.hub import models
from tuneloop.tools.llm_proxy.access import upstreams
from tuneloop.tools.runs.request import OpenFolders
from tuneloop.tools.weights.trained_files import ADAPTER

# What a caller over MCP asks to be measured, and the options of the command line that say the same.

LOCAL = ("127.0.0.1", "::1", "localhost")
LONGEST_NAME = 40


class EvaluationRequest(BaseModel):
    """Fields as options of `tuneloop eval`; None and "" leave the choice to the benchmark. Always of validation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    benchmark: tuple[str, ...]
    base_model: str = ""
    endpoint: str = ""
    name: str = ""
    limit: int | None = None
    max_out_len: int | None = None
    max_seq_len: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    batch_size: int | None = None
    seed: int = 1

    def checked(self, given: OpenFolders, settings: Settings) -> EvaluationRequest:
        """With paths made absolute. Raises ToolError when a path or the endpoint is not open to the caller."""
        at = AT.fullmatch(self.model)
        model, endpoint = (at["model"], at["base"]) if at else (self.model, self.endpoint)
        if endpoint:
            check_endpoint_allowed(endpoint, settings)
        else:
            model = given.confined(model, models.registered_models())
        base = given.confined(self.base_model, models.registered_models()) if self.base_model else ""
        if not base and not endpoint and (Path(model) / ADAPTER).is_file():
            told = adapter_config(Path(model)).get("base_model_name_or_path")
            given.confined(str(told or "-"), models.registered_models())
        return self.model_copy(
            update={
                "model": model,
                "endpoint": endpoint,
                "base_model": base,
                "benchmark": tuple(given.confined(name, resolve.registered_names()) for name in self.benchmark),
            }
        )

    def options(self) -> Iterator[str]:
        """Words for `tuneloop eval`; `--name=value`, so that no value is taken for an option."""
        for field, value in self.model_dump(exclude={"benchmark"}).items():
            if value not in (None, ""):
                yield f"--{field.replace('_', '-')}={value}"
        yield from (f"--benchmark={name}" for name in self.benchmark)

    def id(self, settings: Settings) -> str:
        """The same for the same question: of the same files, to the same endpoints, judged by the same model."""
        places = [Path(word) for word in (self.model, self.base_model, *self.benchmark) if Path(word).is_absolute()]
        bases = [one.base for one in upstreams(settings).values()]
        told = [tuneloop.__version__, settings.judge_model or "", settings.backend, *bases]
        own = digest(self.model_dump_json(), *told, *(path_stamp(place) for place in places))
        return f"{file_safe_name(self.name or Path(self.model).name)[:LONGEST_NAME]}-{own}"


def check_endpoint_allowed(endpoint: str, settings: Settings) -> None:
    """It must be on this machine, or one that the settings name: the owner's key goes there alone. Raises ToolError."""
    asked = url_origin(endpoint)
    if asked is None:
        raise ToolError("the endpoint is no address; right is e.g. http://127.0.0.1:8000/v1, without a password in it")
    if asked.hostname in LOCAL or asked[:2] in [origin_of[:2] for origin_of in allowed_endpoints(settings)]:
        return
    raise ToolError(
        f"endpoint {asked.hostname} is not open to you; right is an address on this "
        "machine, or the one that TUNELOOP_EVAL_API_BASE names where this server was started"
    )


def allowed_endpoints(settings: Settings) -> list[SplitResult]:
    """Endpoints that the settings name for evaluations."""
    found = (url_origin(base) for base in (settings.eval_api_base, settings.api_base) if base)
    return [one for one in found if one is not None]


def url_origin(address: str) -> SplitResult | None:
    """An address of the web, None for anything else, and for one that brings a name and a password along."""
    try:
        found = urlsplit(address)
        _ = found.port
    except ValueError:
        return None
    plain_web = found.scheme in ("http", "https") and found.hostname and "@" not in found.netloc
    return found if plain_web and address.isprintable() and not found.query else None


def path_stamp(place: Path) -> str:
    """Names, sizes and times of a folder's files, or of one file: what is written anew is another question."""
    files = sorted(p for p in place.iterdir() if p.is_file()) if place.is_dir() else [place]
    seen = ((p.name, p.stat()) for p in files if p.is_file())
    return "\n".join(f"{name} {found.st_size} {found.st_mtime_ns}" for name, found in seen)


PREFIX = "asked-"
ACCEPT_SECONDS = 30.0  # until it is taken or refused; what takes longer, a download say, is still on its way


def begin_evaluation(home: Home, question: EvaluationRequest, own: str) -> EvaluationRecord:
    """The evaluation called `own`: begun, or found at work or over. Raises ToolError with the command line's own refusal."""
    record = EvaluationRecord(home.evaluations / f"{PREFIX}{own}")
    with exclusive(record.start):
        if not is_locked(record.lock) and not has_result(record):
            for old in (record.outcome, record.progress, record.stop):
                old.unlink(missing_ok=True)
            write_json(record.request, question.model_dump(mode="json"))
            refusal = launch_evaluation(record, question)
            if refusal:
                remove_path(record.root)
                raise ToolError(refusal)
    return record


def has_result(record: EvaluationRecord) -> bool:
    """Whether there is a result, which is still all there."""
    return record.outcome.is_file() and Path(record.told.place or "/nowhere").is_dir()


def launch_evaluation(record: EvaluationRecord, question: EvaluationRequest) -> str:
    """Start the command line and wait until it has accepted; its refusal, "" when there is none."""
    words = ("eval", *question.options(), f"--record={record.root}", f"--out={record.root / 'results'}")
    ended = start_command_line(*words, cwd=Path.cwd(), log=record.log)
    if not wait_accepted(ended, lambda: record.accepted, ACCEPT_SECONDS):
        return ""
    if record.outcome.is_file():
        return record.told.error
    lines = record.log.read_text(errors="replace").strip().splitlines()
    return lines[-1].removeprefix("tuneloop: ") if lines else "the command line ended without a word"


def find_evaluation(home: Home, own: str) -> EvaluationRecord:
    """The evaluation called `own`. Raises ToolError, which says the closest there is."""
    known = [path.name.removeprefix(PREFIX) for path in home.evaluations.glob(f"{PREFIX}*/")]
    if own not in known:
        close = difflib.get_close_matches(own, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "evaluate with model and benchmarks begins one"
        raise ToolError(f"no evaluation {own[:80]!r}: {hint}")
    return EvaluationRecord(home.evaluations / f"{PREFIX}{own}")
