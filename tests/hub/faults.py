"""What can go wrong between a hub and who asks it."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Asked:
    """One request that came in; `server` is the hub itself or the other host it sends large files from."""

    server: Literal["hub", "cdn"]
    method: str
    path: str
    range: str | None
    authorization: str | None


@dataclass
class Fault:
    """Happens to requests whose `METHOD path` the pattern finds, `times` times (None: always).

    `status`: the answer, with `headers` and `body`. The others change how a body is sent: `cut` ends the connection after so
    many bytes, `hold` sends so many and waits until `released`, `corrupt` turns one byte over, `longer` appends bytes to the
    file, `ignore_range` sends the whole file whatever was asked for.
    """

    pattern: str
    times: int | None = 1
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    cut: int | None = None
    hold: int | None = None
    corrupt: bool = False
    longer: bytes = b""
    ignore_range: bool = False
    held: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    happened: int = 0

    def meets(self, asked: Asked) -> bool:
        """Whether it happens to this request; counts it."""
        if self.times is not None and self.happened >= self.times:
            return False
        if re.search(self.pattern, f"{asked.method} {asked.path}") is None:
            return False
        self.happened += 1
        return True

    def change(self, data: bytes) -> bytes:
        """The file as it comes out."""
        if self.corrupt and data:
            middle = len(data) // 2
            data = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        return data + self.longer


SOUND = Fault("", times=0)
