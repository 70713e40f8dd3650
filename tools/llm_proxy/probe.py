"""Checks that a provider is reachable and takes the key, before anything costs."""

from __future__ import annotations

import httpx2

from tuneloop.core.errors import InvalidRequestError
from tuneloop.tools.llm_proxy.access import Upstream

TIMEOUT_SECONDS = 10.0


def check_endpoint(upstream: Upstream, model: str, what: str, variables: str) -> None:
    """Request the list of models, which costs nothing; a provider without one passes.

    Args:
        upstream: Address and key of the provider.
        model: The model that must be listed.
        what: What the provider is used for, in error messages.
        variables: The settings to look at, in error messages.

    Raises:
        InvalidRequestError: The provider is unreachable, refuses the key, or lists its models without this one.
    """
    headers = {"Authorization": f"Bearer {upstream.key}"} if upstream.key else {}
    try:
        with httpx2.Client(timeout=TIMEOUT_SECONDS, trust_env=False, headers=headers) as client:
            found = client.get(f"{upstream.base}/models")
    except (httpx2.HTTPError, httpx2.InvalidURL) as e:
        raise InvalidRequestError(
            f"{what} at {_shown(upstream)} cannot be reached ({type(e).__name__}): look at {variables}"
        ) from e
    if found.status_code in (401, 403):
        how = "refuses the key" if upstream.key else "wants a key, and none is set"
        raise InvalidRequestError(f"{what} at {_shown(upstream)} {how} ({found.status_code}): look at {variables}")
    names = _listed(found)
    if names and model not in names:
        known = ", ".join(names[:8])
        raise InvalidRequestError(
            f"{what} at {_shown(upstream)} has no model {model!r}; it lists {known}: look at {variables}"
        )


def _listed(found: httpx2.Response) -> list[str]:
    """Names of all its models, [] where it lists none."""
    try:
        return [str(row["id"]) for row in found.json()["data"]] if found.status_code == 200 else []
    except (ValueError, LookupError, TypeError):
        return []


def _shown(upstream: Upstream) -> str:
    """The host only: an address may hold a password."""
    try:
        return httpx2.URL(upstream.base).host or "the given address"
    except httpx2.InvalidURL:
        return "the given address"
