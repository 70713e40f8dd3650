"""Keys and tokens never reach a log, a transcript, an event or a model: values that are or look like one are masked."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from pydantic import SecretStr

from tuneloop.core.setting_values import McpProgram
from tuneloop.core.settings import Settings

REDACTED = "[secret]"
SHORTEST = 8
NAMED = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS)$", re.IGNORECASE)
LOOKS = re.compile(
    r"\b(sk-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|xox[abprs]-[A-Za-z0-9-]{10,})"
)
# Of an address: up to its first `@`, or up to its last one where the password has some; and as an option.
PASSWORDS = tuple(map(re.compile, (r"://[^:@/?]*:(.*?)@", r"://[^:@/?]*:(.*)@", r"[?&](?:ssl)?password=([^&]*)")))


class SecretRedactor:
    """Secret values. Those shorter than eight characters are words, not keys."""

    def __init__(self, values: Iterable[str]) -> None:
        known = sorted({value for value in values if len(value) >= SHORTEST}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def blot(self, value: Any) -> Any:
        """The same text or JSON value without secrets."""
        match value:
            case str():
                whole = value.encode("utf-8", "replace").decode()  # half a surrogate pair cannot be encoded
                return LOOKS.sub(REDACTED, self._known.sub(REDACTED, whole) if self._known else whole)
            case dict():
                return {self.blot(name): self.blot(part) for name, part in value.items()}
            case list() | tuple():
                return [self.blot(part) for part in value]
        return value


def collect_secrets(settings: Settings, environment: Mapping[str, str] = os.environ) -> SecretRedactor:
    """Every key of the settings, and whatever variable is named like one."""
    own = [value.get_secret_value() for _, value in settings if isinstance(value, SecretStr)]
    programs = [how.env for how in settings.servers.values() if isinstance(how, McpProgram)]
    more = [value for named in (environment, *programs) for name, value in named.items() if NAMED.search(name)]
    stores = [word for url in (settings.checkpoint_url, settings.team_url) for word in url_passwords(url or "")]
    return SecretRedactor((*own, settings.mcp_token or "", *stores, *more))


def url_passwords(url: str) -> list[str]:
    """What may be a password in an address, also in one that is malformed, as it is written and decoded."""
    found = [word for pattern in PASSWORDS for word in pattern.findall(url)]
    return [*found, *map(unquote, found)]
