"""What a caller over MCP asks to be measured, and the options of the command line that say the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, ConfigDict

import tuneloop
from tuneloop.core.errors import ToolError
from tuneloop.core.files import digest
from tuneloop.core.settings import Settings
from tuneloop.tools import benchmarks, models
from tuneloop.tools.evaluating.subjects import AT, plain
from tuneloop.tools.evaluating.whole import adapter_config
from tuneloop.tools.llm_proxy.access import upstreams
from tuneloop.tools.model_files import ADAPTER
from tuneloop.tools.runs.naming import Open

LOCAL = ("127.0.0.1", "::1", "localhost")
LONGEST_NAME = 40


class Question(BaseModel):
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

    def checked(self, given: Open, settings: Settings) -> Question:
        """With paths made absolute. Raises ToolError when a path or the endpoint is not open to the caller."""
        at = AT.fullmatch(self.model)
        model, endpoint = (at["model"], at["base"]) if at else (self.model, self.endpoint)
        if endpoint:
            check_open(endpoint, settings)
        else:
            model = given.confined(model, models.names())
        base = given.confined(self.base_model, models.names()) if self.base_model else ""
        if not base and not endpoint and (Path(model) / ADAPTER).is_file():
            told = adapter_config(Path(model)).get("base_model_name_or_path")
            given.confined(str(told or "-"), models.names())
        return self.model_copy(
            update={
                "model": model,
                "endpoint": endpoint,
                "base_model": base,
                "benchmark": tuple(given.confined(name, benchmarks.names()) for name in self.benchmark),
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
        told = [tuneloop.__version__, settings.judge_model or "", settings.eval_backend, *bases]
        own = digest(self.model_dump_json(), *told, *(stamp(place) for place in places))
        return f"{plain(self.name or Path(self.model).name)[:LONGEST_NAME]}-{own}"


def check_open(endpoint: str, settings: Settings) -> None:
    """Our key goes to the endpoint: it must be on this machine, or one that the settings name. Raises ToolError."""
    asked = origin(endpoint)
    if asked is None:
        raise ToolError("the endpoint is no address; right is e.g. http://127.0.0.1:8000/v1, without a password in it")
    if asked.hostname in LOCAL or asked[:2] in [origin_of[:2] for origin_of in known(settings)]:
        return
    raise ToolError(
        f"endpoint {asked.hostname} is not open to you: the owner's key would go there; right is an address on this "
        "machine, or the one that TUNELOOP_EVAL_API_BASE names where this server was started"
    )


def known(settings: Settings) -> list[SplitResult]:
    """Endpoints that the settings name for evaluations."""
    found = (origin(base) for base in (settings.eval_api_base, settings.api_base) if base)
    return [one for one in found if one is not None]


def origin(address: str) -> SplitResult | None:
    """An address of the web, None for anything else, and for one that brings a name and a password along."""
    try:
        found = urlsplit(address)
        _ = found.port
    except ValueError:
        return None
    plain_web = found.scheme in ("http", "https") and found.hostname and "@" not in found.netloc
    return found if plain_web and address.isprintable() and not found.query else None


def stamp(place: Path) -> str:
    """Names, sizes and times of a folder's files, or of one file: what is written anew is another question."""
    files = sorted(p for p in place.iterdir() if p.is_file()) if place.is_dir() else [place]
    seen = ((p.name, p.stat()) for p in files if p.is_file())
    return "\n".join(f"{name} {found.st_size} {found.st_mtime_ns}" for name, found in seen)
