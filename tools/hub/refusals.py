"""What a hub's refusals mean, in one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuneloop.core.errors import SetupError, WorldError
from tuneloop.tools.hub.asking import Busy, retry_after

if TYPE_CHECKING:
    import httpx2

    from tuneloop.tools.hub.listing import Wanted

TIMEOUT, TOO_MANY, BROKEN = 408, 429, 500


def not_now(response: httpx2.Response, place: str, variable: str) -> Busy | None:
    """The answers that are worth another try; None for others."""
    code = response.status_code
    if code == TOO_MANY:
        return Busy(f"{place} takes no more requests now (429; with {variable} it takes more)", retry_after(response))
    if code == TIMEOUT or code >= BROKEN:
        return Busy(f"{place} fails ({code})", retry_after(response))
    return None


def not_a_hub(place: str, variable: str, right: str) -> WorldError:
    """An address that is something else."""
    return WorldError(f"{place} does not answer as a hub does: {variable} must be {right} or a mirror of it")


def closed(wanted: Wanted, page: str, variable: str) -> SetupError:
    """A repository whose licence has to be accepted."""
    return SetupError(
        f"{wanted} is gated: accept its licence at {page}, then set {variable} to a token of the account that did"
    )


def absent(wanted: Wanted, place: str, variable: str) -> SetupError:
    """A repository that is not there, or not for this user."""
    return SetupError(f"{wanted} is not on {place} (or is private: set {variable} to a token that may read it)")
