"""Ask a hub: who may see the token, how long is waited for a hub that is busy or away."""

from __future__ import annotations

import contextlib
import email.utils
import re
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from tuneloop.core.bridge import pause
from tuneloop.core.errors import WorldError

if TYPE_CHECKING:
    import httpx2

    from tuneloop.tools.hub.listing import Hub

T = TypeVar("T")
WAITS = (1.0, 2.0, 4.0, 8.0)
LONGEST = 300.0
SILENCE = 60.0
REDIRECTS = 10
RESET = re.compile(r";\s*t\s*=\s*(\d+)")
PORTS = {"http": 80, "https": 443}


class Busy(Exception):  # noqa: N818 - an answer to be asked for again
    """Not now: one line that says why, and the seconds after which the hub wants to be asked again."""

    def __init__(self, text: str, after: float = 0.0) -> None:
        super().__init__(text)
        self.after = after


class Patience:
    """Waits before another try, a little longer each time; begins anew when something came through."""

    def __init__(self, wait: Callable[[float], object] = pause) -> None:
        self.wait = wait
        self.left = list(WAITS)

    def again(self, busy: Busy, *, moved: bool = False) -> None:
        """Wait. Raises WorldError when it was asked often enough, or the hub asks for a longer pause than is waited for."""
        if moved:
            self.left = list(WAITS)
        if busy.after > LONGEST:
            raise WorldError(f"{busy}; it asks for a pause of {busy.after:.0f} s: then again") from busy
        if not self.left:
            raise WorldError(f"{busy}; asked {len(WAITS) + 1} times: later again") from busy
        self.wait(max(self.left.pop(0), busy.after))


def patiently(ask: Callable[[], T]) -> T:
    """What `ask` gives, asked again while the hub is busy. Raises WorldError when it stays so."""
    patience = Patience()
    while True:
        try:
            return ask()
        except Busy as e:
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
def opened(client: httpx2.Client, hub: Hub, url: str, **headers: str) -> Iterator[httpx2.Response]:
    """The answer to a GET, redirects followed; the hub's own headers, with the token, go to the hub and to nobody else."""
    for _ in range(REDIRECTS):
        own = hub.headers if origin(url) == origin(hub.endpoint) else {}
        with client.stream("GET", url, headers={"Accept-Encoding": "identity", **own, **headers}) as response:
            if not response.has_redirect_location:
                yield response
                return
            url = urllib.parse.urljoin(url, response.headers["Location"])
    raise Busy(f"{hub.endpoint} leads in circles")


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port of an address."""
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or PORTS.get(parts.scheme, 0)


def client() -> httpx2.Client:
    """A client that gives up on silence and follows nobody by itself."""
    import httpx2  # slow to import, and most runs fetch nothing

    return httpx2.Client(timeout=httpx2.Timeout(SILENCE, connect=10.0), follow_redirects=False)


def lost(hub: Hub, error: Exception) -> Busy:
    """A connection that failed, in words; addresses in the error's own text may hold signatures and are not shown."""
    return Busy(f"{hub.endpoint} cannot be reached ({type(error).__name__}): check the network or {hub.variable}")
