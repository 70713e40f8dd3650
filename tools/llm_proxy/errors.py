"""An error response of the proxy, in the form that OpenAI's clients expect."""

from __future__ import annotations

import json


class ApiError(Exception):
    """`retry_after`: seconds after which another attempt may succeed; None: it will not."""

    def __init__(self, status: int, code: str, text: str, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.status, self.code, self.text, self.retry_after = status, code, text, retry_after

    @property
    def body(self) -> bytes:
        """The JSON that the client gets."""
        kind = "invalid_request_error" if 400 <= self.status < 500 and self.status != 429 else "api_error"
        error = {"message": self.text, "type": kind, "param": None, "code": self.code}
        return json.dumps({"error": error}, ensure_ascii=False).encode(errors="replace")

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Tell OpenAI's clients whether and when to retry."""
        if self.retry_after is None:
            return [("x-should-retry", "false")]
        return [("Retry-After", f"{max(self.retry_after, 1):.0f}"), ("x-should-retry", "true")]
