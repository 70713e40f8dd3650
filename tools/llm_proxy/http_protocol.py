"""uvicorn's HTTP/1.1 protocol with the time limits that it lacks: for requests to arrive, for responses to be read."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class BoundedH11Protocol(H11Protocol):
    """Cuts a connection whose request does not arrive in time, or whose client does not read its response.

    Subclasses set the limits; without `h11.SEND_BODY` in `timed_states`, only the head of a request is timed.
    """

    request_seconds = 20.0
    write_seconds = 60.0
    timed_states = frozenset({h11.IDLE, h11.SEND_BODY})

    _request_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start to wait for the first request."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self._time_request()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request, or all of it."""
        super().data_received(data)
        self._time_request()

    def send_400_response(self, msg: str) -> None:
        """Refuse invalid HTTP; while a response is under way the connection is cut: a second one would corrupt it."""
        if self.cycle is None or self.cycle.response_complete:
            super().send_400_response(msg)
        else:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self.transport.abort()

    def pause_writing(self) -> None:
        """Start to wait for the client to read."""
        super().pause_writing()
        self._write_timer = self.loop.call_later(self.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has read."""
        if self._write_timer is not None:
            self._write_timer.cancel()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop both timers."""
        for timer in (self._request_timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def _time_request(self) -> None:
        if self.conn.their_state in self.timed_states:
            self._request_timer = self._request_timer or self.loop.call_later(
                self.request_seconds, self.transport.abort
            )
        elif self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None
