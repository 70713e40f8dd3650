"""The registration of a data file: as `dataset_info.json` beside it has it, or the form that its records have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tuneloop.core.errors import InvalidRequestError
from tuneloop.tools.config.config_text import UnreadableError, read_object
from tuneloop.tools.config.data_columns import Columns, required_columns
from tuneloop.tools.config.data_records import read_confined_sample
from tuneloop.tools.config.data_registry import INFO, entry_problem

OPENAI_TAGS = {
    "role_tag": "role",
    "content_tag": "content",
    "user_tag": "user",
    "assistant_tag": "assistant",
    "observation_tag": "tool",
    "function_tag": "function",
    "system_tag": "system",
}
CHAT, PROMPT, RESPONSE = ("conversations", "messages"), ("instruction", "prompt"), ("output", "response", "completion")
FORMS = "Alpaca (instruction, output), conversations or messages, prompt with chosen and rejected, prompt with completion and label"


def registration_of(file: Path) -> dict[str, Any]:
    """What the engine needs to read `file`.

    Raises:
        InvalidRequestError: the registration is wrong, or there is none and the records have no form that is known.
    """
    registered = _registered(file)
    if registered and (wrong := entry_problem(registered) or _unnamed_role(Columns.of(registered))):
        raise InvalidRequestError(f"{file.name}: {wrong}")
    return registered or _guessed(file)


def _registered(file: Path) -> dict[str, Any] | None:
    try:
        info = read_object(file.parent / INFO)
    except (UnreadableError, OSError):
        return None
    entries = info.values() if isinstance(info, Mapping) else ()
    return next((dict(e) for e in entries if isinstance(e, Mapping) and e.get("file_name") == file.name), None)


def _unnamed_role(columns: Columns) -> str:
    """What a registration must name for the stage that it is for, and does not."""
    stage = "dpo" if columns.ranking else "kto" if columns.kto_tag else "sft"
    role = next((role for role, name in required_columns(columns, stage) if name is None), None)
    return f"no column is named for {role}; name it in columns of {INFO}" if role else ""


def _guessed(file: Path) -> dict[str, Any]:
    sample = read_confined_sample(file)
    if sample.broken:
        raise InvalidRequestError(f"{sample.broken}; right is a JSON list of objects, or one object a line")
    records = [record for record in sample.records if isinstance(record, dict)]
    named = Counter(name for record in records for name in record)
    have = frozenset(named)
    pairs, chat = bool(have & {"chosen", "rejected"}), next((n for n in CHAT if n in have), None)
    columns = {"messages": chat} if chat else dict(_alpaca(have, pairs=pairs))
    if not chat and "prompt" not in columns:
        shown = ", ".join(sorted(have)[:8]) or "no fields"
        raise InvalidRequestError(
            f"{file.name} has {shown}, none of the forms {FORMS}; rename the fields, or name them in columns of {INFO} beside it"
        )
    columns |= {name: name for name in ("system", "tools", "images", "videos", "audios") if name in have}
    columns |= {name: name for name in ("chosen", "rejected") if pairs}
    if tag := next((n for n in ("kto_tag", "label") if n in have and _judges(records, n, have)), None):
        columns["kto_tag"] = tag
    found: dict[str, Any] = {"file_name": file.name, "columns": columns}
    if chat:
        openai = _has_roles(records, chat)
        found |= {"formatting": "openai", "tags": OPENAI_TAGS} if openai else {"formatting": "sharegpt"}
    return found | ({"ranking": True} if pairs else {})


def _alpaca(have: frozenset[str], *, pairs: bool) -> Iterator[tuple[str, str]]:
    """Column by role."""
    if prompt := next((n for n in PROMPT if n in have), None):
        yield "prompt", prompt
        if not pairs:
            yield "response", next((n for n in RESPONSE if n in have), RESPONSE[PROMPT.index(prompt)])
    yield from ((role, name) for role, name in (("query", "input"), ("history", "history")) if name in have)


def _judges(records: list[dict[str, Any]], name: str, have: frozenset[str]) -> bool:
    """Whether a column holds judgements: by its values, or by what stands beside it."""
    judged = sum(isinstance(record.get(name), bool) for record in records)
    return name == "kto_tag" or 2 * judged > len(records) or bool(have & {"completion", *CHAT})


def _has_roles(records: list[dict[str, Any]], chat: str) -> bool:
    """Whether most turns have role and content."""
    turns = [t for r in records if isinstance(r.get(chat), list) for t in r[chat] if isinstance(t, dict)]
    return 2 * sum("role" in turn for turn in turns) > len(turns)
