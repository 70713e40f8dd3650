"""Is there somebody at an endpoint who takes this key? Asked before anything costs."""

from __future__ import annotations

import httpx2

from tuneloop.core.errors import SetupError
from tuneloop.tools.proxy.access import Upstream

SECONDS = 10.0


def check_endpoint(upstream: Upstream, model: str, what: str, variables: str) -> None:
    """Ask for the list of models, which costs nothing; an endpoint without one is believed.

    `what` and `variables` name it and its settings in the one line of the SetupError: nobody answers, the key is refused,
    or the endpoint lists its models and this one is not among them.
    """
    headers = {"Authorization": f"Bearer {upstream.key}"} if upstream.key else {}
    try:
        with httpx2.Client(timeout=SECONDS, trust_env=False, headers=headers) as client:
            found = client.get(f"{upstream.base}/models")
    except (httpx2.HTTPError, httpx2.InvalidURL) as e:
        raise SetupError(
            f"{what} at {_shown(upstream)} cannot be reached ({type(e).__name__}): look at {variables}"
        ) from e
    if found.status_code in (401, 403):
        how = "refuses the key" if upstream.key else "wants a key, and none is set"
        raise SetupError(f"{what} at {_shown(upstream)} {how} ({found.status_code}): look at {variables}")
    names = _listed(found)
    if names and model not in names:
        known = ", ".join(names[:8])
        raise SetupError(f"{what} at {_shown(upstream)} has no model {model!r}; it lists {known}: look at {variables}")


def _listed(found: httpx2.Response) -> list[str]:
    """Names of all its models, [] where it does not say."""
    try:
        return [str(row["id"]) for row in found.json()["data"]] if found.status_code == 200 else []
    except (ValueError, LookupError, TypeError):
        return []


def _shown(upstream: Upstream) -> str:
    """Without what could be a password in the address."""
    try:
        return httpx2.URL(upstream.base).host or "the given address"
    except httpx2.InvalidURL:
        return "the given address"
