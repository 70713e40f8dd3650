"""What a provider's failure means: try again, ask in another way, take another model, or tell the user."""

from __future__ import annotations

import email.utils
import re
import time
from dataclasses import dataclass
from typing import Any, Literal

FailureKind = Literal["again", "next", "shape", "long", "refused", "key"]
BUSY = frozenset((408, 409, 425, 429))
SPENT = re.compile(r"insufficient_quota|exceeded your current quota|billing", re.IGNORECASE)
LONG = re.compile(r"context.{0,20}(length|window)|maximum context|too many tokens|prompt is too long", re.IGNORECASE)
BLOCKED = re.compile(r"content_(policy|filter)|content management policy|safety", re.IGNORECASE)
# Of all libraries beneath providers' clients, whose own errors have these as causes.
UNREACHABLE = frozenset(("ConnectError", "ConnectTimeout", "PoolTimeout", "ConnectionRefusedError", "gaierror"))
PARAMETERS = ("temperature", "stream_options", "stream")


class StreamCutError(Exception):
    """A stream ended without saying why: the connection broke."""


class NoModelAnsweredError(Exception):
    """Every model of the chain failed; the text says how each did."""


@dataclass(frozen=True)
class ProviderFailure:
    """`wait`: seconds the provider asked for; `drop`: a parameter that the model does not take."""

    meaning: FailureKind
    text: str
    wait: float | None = None
    drop: str = ""


def classify(e: Exception) -> ProviderFailure:
    """Of any provider's exception: they differ in class and agree on HTTP."""
    status, text = _status(e), _text(e)
    wait = retry_after(getattr(getattr(e, "response", None), "headers", {}))
    if status in (401, 403):
        return ProviderFailure("refused" if BLOCKED.search(text) else "key", text)
    if status == 404:
        return ProviderFailure("key", text)
    if status in BUSY or (status or 0) >= 500:
        return ProviderFailure("next" if SPENT.search(text) else "again", text, wait)
    if (status or 0) >= 400:
        return _is_bad_request(text)
    return ProviderFailure("again", text, wait)


def may_have_cost(e: Exception) -> bool:
    """Whether a provider may have worked on the request: it neither refused it nor was out of reach."""
    chain: list[BaseException] = [e]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    return (_status(e) or 0) < 400 and not any(type(one).__name__ in UNREACHABLE for one in chain)


def _is_bad_request(text: str) -> ProviderFailure:
    """A request that the provider does not want as it is."""
    if LONG.search(text):
        return ProviderFailure("long", text)
    if BLOCKED.search(text):
        return ProviderFailure("refused", text)
    named = next((name for name in PARAMETERS if re.search(rf"\b{name}\b", text)), "")
    return ProviderFailure("shape", text, drop=named)


def _status(e: Exception) -> int | None:
    found = getattr(e, "status_code", None) or getattr(getattr(e, "response", None), "status_code", None)
    return found if isinstance(found, int) else None


def _text(e: Exception) -> str:
    """One line that names the kind of failure."""
    said = " ".join(str(e).split())[:500]
    return f"{type(e).__name__}: {said}" if said else type(e).__name__


def retry_after(headers: Any) -> float | None:
    """Seconds to wait, from `Retry-After-Ms` or `Retry-After` as a number or a date; None: nothing usable is said."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = str(headers.get(name) or "")
        if re.fullmatch(r"\d+(\.\d+)?", value):
            return float(value) / unit
    try:
        at = email.utils.parsedate_to_datetime(str(headers.get("retry-after") or "")).timestamp()
    except ValueError:
        return None
    return max(0.0, at - time.time())
