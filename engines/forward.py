"""Gives a job a port to its models: `python -I forward.py SOCKET PROGRAM ARGUMENT...` serves it and becomes the program.

A job has no network. This listens on a free port of 127.0.0.1 (in the job's own network, where it has one), passes each
connection on to the socket that was brought into the sandbox, and tells the program where in OPENAI_BASE_URL. While
nobody answers at the socket (the proxy was killed and is started again) connections wait; one that broke before a word
of its answer came is told so in a way that OpenAI's clients understand. Standard library only.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from typing import NoReturn

HANDED_PORT = 9  # handed_socket.py's
PIECE = 1 << 16
PATIENCE = 60.0  # seconds without anybody at the socket
PAUSE = 0.1
SAID = (
    b'{"error": {"message": "the model proxy was interrupted; ask again", '
    b'"type": "api_error", "param": null, "code": "interrupted"}}'
)
BROKEN = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
    b"Retry-After: 1\r\nConnection: close\r\n\r\n%s"
) % (len(SAID), SAID)


def main(place: str, *argv: str) -> None:
    """Listen, fork the server, become the program; where connections are handed down, only the latter."""
    if "TUNELOOP_ENDPOINT" in os.environ:
        become(f"http://127.0.0.1:{HANDED_PORT}/v1", through_handed_sockets(argv))
    door = socket.create_server(("127.0.0.1", 0), backlog=1024)
    address = f"http://127.0.0.1:{door.getsockname()[1]}/v1"
    if os.fork() == 0:
        try:
            quiet = os.open(os.devnull, os.O_RDWR)
            for handle in (0, 1, 2):  # the job's log ends with the job
                os.dup2(quiet, handle)
            asyncio.run(serve(door, place))
        finally:
            os._exit(0)
    door.close()
    become(address, argv)


def become(address: str, argv: tuple[str, ...]) -> NoReturn:
    """The program, which finds its models at `address`."""
    here = {"OPENAI_BASE_URL": address, "OPENAI_API_BASE": address, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    os.execve(argv[0], argv, {**os.environ, **here})  # noqa: S606 - what the supervisor was asked to run


def through_handed_sockets(argv: tuple[str, ...]) -> tuple[str, ...]:
    """A Python script runs below `handed_socket.py`; its interpreter's options come before that."""
    at = next(i for i in range(1, len(argv)) if not argv[i].startswith("-"))
    return (*argv[:at], f"{os.path.dirname(os.path.abspath(__file__))}/handed_socket.py", *argv[at:])  # noqa: PTH100, PTH120


async def serve(door: socket.socket, place: str) -> None:
    """Until the job is over and everything in its sandbox is ended."""
    folder = os.open(os.path.dirname(place), os.O_PATH | os.O_DIRECTORY)  # noqa: PTH120
    inside = f"/proc/self/fd/{folder}/{os.path.basename(place)}"  # noqa: PTH119 - however long its path is

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await pass_on(reader, writer, inside)
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, sock=door)
    await server.serve_forever()


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, place: str) -> None:
    """One connection: what the job says goes out, the answer comes back."""
    try:
        back, out = await reached(place)
    except OSError:
        writer.write(BROKEN)
        await writer.drain()
        return
    asking = asyncio.create_task(pump(reader, out))
    try:
        if not await pump(back, writer):
            writer.write(BROKEN)
            await writer.drain()
    finally:
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError, OSError):
            await asking
        out.close()


async def reached(place: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the proxy, waited for. Raises OSError."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while True:
        try:
            return await asyncio.open_unix_connection(place)
        except OSError:
            if asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(PAUSE)


async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> int:
    """Bytes moved until one side ends."""
    moved = 0
    with contextlib.suppress(OSError):
        while data := await source.read(PIECE):
            target.write(data)
            await target.drain()
            moved += len(data)
        if moved:
            target.write_eof()
    return moved


if __name__ == "__main__":
    main(*sys.argv[1:])
