"""What a hub's refusals mean, in one line each."""

from __future__ import annotations

import contextlib
import email.utils
import re
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from tuneloop.core.async_bridge import pause
from tuneloop.core.errors import InfrastructureError, InvalidRequestError

if TYPE_CHECKING:
    import httpx2

    from tuneloop.tools.hub.listing import Hub, HubRequest


# Ask a hub: who may see the token, how long is waited for a hub that is busy or away.

T = TypeVar("T")
WAITS = (1.0, 2.0, 4.0, 8.0)
LONGEST = 300.0
SILENCE = 60.0
REDIRECTS = 10
RESET = re.compile(r";\s*t\s*=\s*(\d+)")
PORTS = {"http": 80, "https": 443}


class HubBusyError(Exception):
    """Not now: one line that says why, and the seconds after which the hub wants to be asked again."""

    def __init__(self, text: str, after: float = 0.0) -> None:
        super().__init__(text)
        self.after = after


class FileGoneError(Exception):
    """A file that the listing has and the hub has no more."""


class RetryWaits:
    """Waits before another try, a little longer each time; begins anew when something came through."""

    def __init__(self, wait: Callable[[float], object] = pause) -> None:
        self.wait = wait
        self.left = list(WAITS)

    def again(self, busy: HubBusyError, *, moved: bool = False) -> None:
        """Wait. Raises InfrastructureError after too many attempts, or when the hub asks for too long a pause."""
        if moved:
            self.left = list(WAITS)
        if busy.after > LONGEST:
            raise InfrastructureError(f"{busy}; it asks for a pause of {busy.after:.0f} s: then again") from busy
        if not self.left:
            raise InfrastructureError(f"{busy}; asked {len(WAITS) + 1} times: later again") from busy
        self.wait(max(self.left.pop(0), busy.after))


def with_retries(ask: Callable[[], T]) -> T:
    """What `ask` gives, asked again while the hub is busy. Raises InfrastructureError when it stays so."""
    patience = RetryWaits()
    while True:
        try:
            return ask()
        except HubBusyError as e:
            patience.again(e)


def retry_after(response: httpx2.Response) -> float:
    """Seconds that the answer asks to wait; 0 when it says nothing."""
    said = response.headers.get("Retry-After", "").strip()
    if said.isdigit():
        return float(said)
    with contextlib.suppress(ValueError, TypeError):
        return max(0.0, email.utils.parsedate_to_datetime(said).timestamp() - time.time())
    found = RESET.search(response.headers.get("RateLimit", "")) if response.status_code == 429 else None
    return float(found[1]) if found else 0.0


@contextmanager
def open_url(client: httpx2.Client, hub: Hub, url: str, **headers: str) -> Iterator[httpx2.Response]:
    """The answer to a GET, redirects followed; the hub's own headers, with the token, go to the hub and to nobody else."""
    for _ in range(REDIRECTS):
        own = hub.headers if url_origin(url) == url_origin(hub.endpoint) else {}
        with client.stream("GET", url, headers={"Accept-Encoding": "identity", **own, **headers}) as response:
            if not response.has_redirect_location:
                yield response
                return
            url = urllib.parse.urljoin(url, response.headers["Location"])
    raise HubBusyError(f"{hub.endpoint} leads in circles")


def url_origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port of an address."""
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or PORTS.get(parts.scheme, 0)


def http_client() -> httpx2.Client:
    """A client that gives up on silence and follows nobody by itself."""
    import httpx2  # slow to import, and most runs fetch nothing

    return httpx2.Client(timeout=httpx2.Timeout(SILENCE, connect=10.0), follow_redirects=False)


def connection_lost(hub: Hub, error: Exception) -> Exception:
    """A connection that failed, in words; addresses in the error's own text may hold signatures and are not shown."""
    if UNTRUSTED in str(error):
        return InfrastructureError(
            f"the certificate of {hub.endpoint} is not trusted: set SSL_CERT_FILE to a PEM file with your own authorities"
        )
    return HubBusyError(
        f"{hub.endpoint} cannot be reached ({type(error).__name__}): check the network or {hub.variable}"
    )


UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"  # as OpenSSL says it
TIMEOUT, TOO_MANY, BROKEN = 408, 429, 500


def busy_answer(response: httpx2.Response, place: str, variable: str) -> HubBusyError | None:
    """The answers that are worth another try; None for others."""
    code = response.status_code
    if code == TOO_MANY:
        return HubBusyError(
            f"{place} takes no more requests now (429; with {variable} it takes more)", retry_after(response)
        )
    if code == TIMEOUT or code >= BROKEN:
        return HubBusyError(f"{place} fails ({code})", retry_after(response))
    return None


def no_hub_error(place: str, variable: str, right: str) -> InfrastructureError:
    """An address that is something else."""
    return InfrastructureError(f"{place} does not answer as a hub does: {variable} must be {right} or a mirror of it")


def gated_error(wanted: HubRequest, page: str, variable: str) -> InvalidRequestError:
    """A repository whose licence has to be accepted."""
    return InvalidRequestError(
        f"{wanted} is gated: accept its licence at {page}, then set {variable} to a token of the account that did"
    )


def missing_error(wanted: HubRequest, place: str, variable: str) -> InvalidRequestError:
    """A repository that is not there, or not for this user."""
    return InvalidRequestError(
        f"{wanted} is not on {place} (or is private: set {variable} to a token that may read it)"
    )
