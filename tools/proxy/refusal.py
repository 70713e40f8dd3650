"""A request that is not answered by a model: status and sentence, in the form in which OpenAI's clients expect errors."""

from __future__ import annotations

import json


class Refused(Exception):  # noqa: N818 - an answer like any other
    """`wait`: seconds after which asking again may help; None: it will not."""

    def __init__(self, status: int, code: str, text: str, wait: float | None = None) -> None:
        super().__init__(text)
        self.status, self.code, self.text, self.wait = status, code, text, wait

    @property
    def body(self) -> bytes:
        """The JSON that the client gets."""
        kind = "invalid_request_error" if 400 <= self.status < 500 and self.status != 429 else "api_error"
        return json.dumps(
            {"error": {"message": self.text, "type": kind, "param": None, "code": self.code}}, ensure_ascii=False
        ).encode(errors="replace")

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Whether and when OpenAI's clients shall try again."""
        if self.wait is None:
            return [("x-should-retry", "false")]
        return [("Retry-After", f"{max(self.wait, 1):.0f}"), ("x-should-retry", "true")]
