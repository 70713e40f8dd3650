"""The application that `langgraph.json` names: `langgraph dev` authenticates nobody; the middleware here does."""

from __future__ import annotations

import asyncio
import json
import os
import re
import stat
from pathlib import Path
from typing import Any
from uuid import uuid4

from langgraph_sdk import Auth
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Send

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.layout import Home
from tuneloop.core.run_lease import is_worked_on
from tuneloop.core.settings import load_settings
from tuneloop.mcp_servers.middleware import has_token, middleware
from tuneloop.tools.runs.messages import put

# A message on a thread whose run is busy: the server would queue it behind hours of training, the run's inbox does not.

RUNS = re.compile(r"/threads/([\w.-]+)/runs(?:/stream|/wait)?/?")
HUMAN = ("human", "user")


class InboxMiddleware:
    """Puts what a person says to a busy run into its inbox as well; the queued run finds it answered."""

    def __init__(self, app: ASGIApp, home: Home) -> None:
        self.app, self.home = app, home

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One request."""
        found = RUNS.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if found is None:
            await self.app(scope, receive, send)
            return
        body, more = b"", True
        while more:
            part = await receive()
            if part["type"] != "http.request":  # who asked has left
                return
            body, more = body + part.get("body", b""), bool(part.get("more_body", False))
        told = [await asyncio.to_thread(self.told, found[1], body)]
        headers = [(name, value) for name, value in scope["headers"] if name != b"content-length"]
        size = (b"content-length", str(len(told[0])).encode())

        async def again() -> Message:
            return {"type": "http.request", "body": told.pop()} if told else await receive()

        await self.app({**scope, "headers": [*headers, size]}, again, send)

    def told(self, thread: str, body: bytes) -> bytes:
        """The request, its messages with names by which the queued run knows them again."""
        try:
            run, given = self.home.run(thread), json.loads(body)
            said = human_texts(given)
        except (InvalidRequestError, ValueError, RecursionError):
            return body  # the server says what is wrong with it
        if not said or not run.spec.is_file() or not is_worked_on(run.root):
            return body
        for message in said:
            message["id"] = str(message.get("id") or uuid4())
            put(run.inbox, do="say", text=str(message["content"]), id=message["id"])
        return json.dumps(given).encode()


def human_texts(given: Any) -> list[dict[str, Any]]:
    """What a person says in a request: plain texts."""
    asked = given.get("input") if isinstance(given, dict) else None
    messages = asked.get("messages") if isinstance(asked, dict) else None
    return [
        m
        for m in (messages if isinstance(messages, list) else [messages])
        if isinstance(m, dict) and (m.get("role") or m.get("type")) in HUMAN and isinstance(m.get("content"), str)
    ]


STUDIO = "https://smith.langchain.com"

KEPT = Path(".langgraph_api")  # where langgraph's server keeps threads, in pickles that it loads when it starts


def secure_kept_folder(folder: Path = KEPT) -> None:
    """Make the folder its owner's alone. Raises InvalidRequestError when others could have written what is loaded from it."""
    if not os.path.lexists(folder):
        return
    places = [folder, *folder.rglob("*")]
    for place in places:
        found = place.lstat()
        wrong = stat.S_ISLNK(found.st_mode) or found.st_uid != os.geteuid()
        if wrong or (place == folder and found.st_mode & 0o022 and len(places) > 1):
            raise InvalidRequestError(
                f"{place.absolute()}: others can write there, and langgraph's server runs what it loads from it; "
                f"remove {folder.absolute()}: only the list of threads is lost, the runs are not"
            )
    folder.chmod(0o700)


secure_kept_folder()
settings = load_settings()
auth = Auth()


@auth.authenticate
async def authenticate(headers: dict[bytes, bytes]) -> str:
    """Who calls, for langgraph's own routes and ours: a second look behind the middleware, also at Studio's way in."""
    given = Headers(raw=list(headers.items()))
    if settings.mcp_token and not has_token(given, settings.mcp_token):
        raise Auth.exceptions.HTTPException(status_code=401, detail="Unauthorized")
    return "owner"


app = Starlette(
    middleware=[
        *middleware(settings.mcp_token, (STUDIO,), settings.mcp_rate),
        Middleware(InboxMiddleware, home=settings.home),
    ]
)
