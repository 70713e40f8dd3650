"""A local hub that speaks the Hugging Face hub's protocol; `python -m tests.hub.server` serves `repos/` until it is ended.

Two servers, as the real one has: the hub, and another host that large files are sent from (`cdn`), which must never see a token.
"""

from __future__ import annotations

import contextlib
import re
import signal
import sys
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal, cast

from tests.hub.repository import Blob, Kind, Repository, load
from tests.hub.sending import Notes, Sender, serving

GOOD, STRANGER = "hf_reader", "hf_stranger"
TOKENS = (GOOD, STRANGER)
PAGE = 1000
API = re.compile(r"/api/(models|datasets)/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+)(?:/(.*))?)?")
FILE = re.compile(r"/(?:(datasets)/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)")
CACHED = re.compile(r"/api/resolve-cache/(models|datasets)/([^/]+/[^/]+)/([0-9a-f]{40})/(.+)")


class LocalHub(Notes):
    """Repositories of `repos/` and those that a test puts here; notes every request and makes it fail on demand."""

    def __init__(self) -> None:
        super().__init__()
        self.repositories: dict[tuple[Kind, str], Repository] = {}
        self.endpoint = ""
        self.cdn = ""

    def find(self, kind: Kind, name: str) -> Repository | None:
        """A repository, made when it is asked for first."""
        with self.lock:
            if (kind, name) not in self.repositories:
                made = load(kind, name)
                if made is None:
                    return None
                self.repositories[kind, name] = made
            return self.repositories[kind, name]

    def put(self, kind: Kind, name: str, files: Mapping[str, bytes]) -> str:
        """A commit with `files` on the main branch of a repository, which is made if missing; the commit's name."""
        repository = self.find(kind, name) or Repository(kind, name)
        self.repositories[kind, name] = repository
        return repository.commit(files)

    def close(
        self, kind: Kind, name: str, how: Literal["gated", "private"], readers: tuple[str, ...] = (GOOD,)
    ) -> None:
        """Only tokens of `readers` may read it; of a gated one everybody sees the list of files."""
        repository = self.find(kind, name)
        assert repository is not None
        repository.closed, repository.readers = how, frozenset(readers)

    def blob(self, sha256: str) -> bytes | None:
        """The content of a large file."""
        blobs = (b for r in self.repositories.values() for files in r.commits.values() for b in files.values())
        return next((b.data for b in blobs if b.lfs and b.sha256 == sha256), None)


class Refused(Exception):  # noqa: N818 - an answer, not a failure
    """What the hub says instead of an answer."""

    def __init__(self, code: int, error: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.headers = {"X_Error_Message": text, **({"X_Error_Code": error} if error else {})}


class HubHandler(Sender):
    """The hub: what a repository holds, and its files or where they are."""

    notes: LocalHub

    @property
    def hub(self) -> LocalHub:
        """Whom this handler serves."""
        return self.notes

    def answer(self) -> None:
        """Find what the address means."""
        url = urllib.parse.urlsplit(self.path)
        self.query = urllib.parse.parse_qs(url.query)
        try:
            self.find(url.path)
        except Refused as e:
            self.reply_json({"error": str(e)}, e.code, e.headers)

    def find(self, path: str) -> None:
        """Call what answers for the path."""
        for pattern, reply in ((CACHED, self.cached), (API, self.api), (FILE, self.resolve)):
            found = pattern.fullmatch(path)
            if found:
                return cast(Callable[..., None], reply)(*(urllib.parse.unquote(g) if g else g for g in found.groups()))
        raise Refused(404, "", "Sorry, we can't find the page you are looking for.")

    def opened(self, kind: Kind, name: str, *, listing: bool) -> Repository:
        """The repository if this caller may read it."""
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        repository = self.hub.find(kind, name)
        if token and token not in TOKENS:
            raise Refused(401, "", "Invalid credentials in Authorization header")
        if repository is None or (repository.closed == "private" and token not in repository.readers):
            raise Refused(404 if token else 401, "RepoNotFound", "Repository not found")
        if repository.closed == "gated" and token not in repository.readers and not listing:
            text = f"Access to {kind[:-1]} {name} is restricted."
            raise Refused(403 if token else 401, "GatedRepo", text)
        return repository

    def api(self, kind: Kind, name: str, what: str | None, revision: str | None, path: str | None) -> None:
        """`/api/<kind>/<name>[/revision/R | /tree/R[/path]]`."""
        repository = self.opened(kind, name, listing=True)
        commit = repository.at(revision or "main")
        if commit is None:
            raise Refused(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        files = list(repository.commits[commit].values())
        if what == "tree":
            return self.tree([f for f in files if f.path.startswith(f"{path}/" if path else "")])
        siblings = [self.sibling(f) for f in files]
        facts = {"private": repository.closed == "private", "gated": "auto" if repository.closed == "gated" else False}
        return self.reply_json(
            {"_id": commit[:24], "id": name, "sha": commit, **facts, "tags": [], "siblings": siblings}
        )

    def sibling(self, blob: Blob) -> dict[str, object]:
        """A file in the answer about a repository."""
        if "blobs" not in self.query:
            return {"rfilename": blob.path}
        lfs = {"sha256": blob.sha256, "size": len(blob.data), "pointerSize": len(blob.pointer)}
        own = {"rfilename": blob.path, "size": len(blob.data), "blobId": blob.git}
        return {**own, "lfs": lfs} if blob.lfs else own

    def tree(self, files: list[Blob]) -> None:
        """A page of the list of files; all are listed, as with `recursive=true`."""
        begin = int(self.query.get("cursor", ["0"])[0])
        rows = []
        for blob in files[begin : begin + PAGE]:
            lfs = {"oid": blob.sha256, "size": len(blob.data), "pointerSize": len(blob.pointer)}
            own = {"type": "file", "oid": blob.git, "size": len(blob.data), "path": blob.path}
            rows.append({**own, "lfs": lfs} if blob.lfs else own)
        more = begin + PAGE < len(files)
        following = f"{self.hub.endpoint}{self.path.split('?')[0]}?recursive=true&cursor={begin + PAGE}"
        self.reply_json(rows, 200, {"Link": f'<{following}>; rel="next"'} if more else {})

    def resolve(self, kind: str | None, name: str, revision: str, path: str) -> None:
        """A file: small ones lead on to a place on the hub itself, large ones to the other host."""
        kind_: Kind = "datasets" if kind else "models"
        found = self.found(kind_, name, revision, path)
        if found is None:
            return None
        commit, blob = found
        if not blob.lfs:
            place = f"/api/resolve-cache/{kind_}/{name}/{commit}/{urllib.parse.quote(path)}"
            return self.reply(307, headers={"Location": place, **self.facts(commit, blob)})
        signed = f"{self.hub.cdn}/repos/{blob.sha256}?X-Amz-Signature=signed&response-content-disposition=inline"
        linked = {"X_Linked_Size": str(len(blob.data)), "X_Linked_ETag": f'"{blob.sha256}"', "Accept_Ranges": "bytes"}
        return self.reply(302, headers={"Location": signed, "X_Repo_Commit": commit, **linked})

    def cached(self, kind: Kind, name: str, commit: str, path: str) -> None:
        """The content of a small file."""
        blob = self.found(kind, name, commit, path)[1]
        self.send_file(path, blob.data, self.facts(commit, blob))

    def facts(self, commit: str, blob: Blob) -> dict[str, str]:
        """Headers that say which file of which commit it is."""
        return {"X_Repo_Commit": commit, "ETag": f'"{blob.etag}"', "X_Linked_Size": str(len(blob.data))}

    def found(self, kind: Kind, name: str, revision: str, path: str) -> tuple[str, Blob]:
        """Commit and file."""
        repository = self.opened(kind, name, listing=False)
        commit = repository.at(revision)
        if commit is None:
            raise Refused(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        blob = repository.commits[commit].get(path)
        if blob is None:
            raise Refused(404, "EntryNotFound", "Entry not found")
        return commit, blob


class CdnHandler(Sender):
    """The other host: large files by their hash, for whoever has the signed address."""

    server_kind = "cdn"
    notes: LocalHub

    def answer(self) -> None:
        """The content."""
        sha256 = urllib.parse.urlsplit(self.path).path.rpartition("/")[2]
        data = self.notes.blob(sha256)
        if data is None or "X-Amz-Signature=signed" not in self.path:
            return self.reply(403, b"<Error><Code>AccessDenied</Code></Error>")
        return self.send_file(sha256, data, {"ETag": f'"{sha256[:32]}"'})


@contextmanager
def local_hub() -> Iterator[LocalHub]:
    """A hub while the block lasts."""
    hub = LocalHub()
    with (
        serving(type("Hub", (HubHandler,), {"notes": hub})) as server,
        serving(type("Cdn", (CdnHandler,), {"notes": hub})) as cdn,
    ):
        hub.endpoint, hub.cdn = server.url, cdn.url
        try:
            yield hub
        finally:
            for fault in hub.faults:
                fault.released.set()


def main() -> None:
    """Print where it listens, serve until SIGTERM or Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with local_hub() as hub:
        sys.stdout.write(f"HF_ENDPOINT={hub.endpoint}\n")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
