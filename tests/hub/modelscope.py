"""A local ModelScope: the same repositories behind its own interface."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager

from tests.hub.repository import Kind, Repository
from tests.hub.sending import Sender, serving
from tests.hub.server import CdnHandler, LocalHub

PATH = re.compile(r"/api/v1/(models|datasets)/([^/]+/[^/]+)/repo(?:/(files|tree))?")
MOST = 3000
NOT_FOUND = {"Code": 10010205001, "Message": "record not found", "Success": False}
DENIED = {"Code": 10010101006, "Message": "access denied", "Success": False}


class ModelScopeHandler(Sender):
    """Listings with a SHA-256 for every file; large files come from another host."""

    notes: LocalHub

    def answer(self) -> None:
        """Find what the address means."""
        url = urllib.parse.urlsplit(self.path)
        query = {name: values[0] for name, values in urllib.parse.parse_qs(url.query).items()}
        found = PATH.fullmatch(url.path)
        repository = self.notes.find(found[1], found[2]) if found else None  # type: ignore[arg-type]
        if found is None or repository is None:
            return self.reply_json(NOT_FOUND, 404)
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if repository.closed and token not in repository.readers:
            return self.reply_json(DENIED, 403)
        commit = repository.at("main" if query["Revision"] == "master" else query["Revision"])
        if commit is None:
            return self.reply_json(NOT_FOUND, 404)
        if found[3] is None:
            return self.file(repository, commit, query["FilePath"])
        assert found[3] == ("files" if found[1] == "models" else "tree"), "models and data sets are listed differently"
        return self.files(repository, commit, found[1], query)  # type: ignore[arg-type]

    def files(self, repository: Repository, commit: str, kind: Kind, query: dict[str, str]) -> None:
        """The list of files, its folders too; of models the first 3000, of data sets the page that was asked for."""
        rows: list[dict[str, object]] = [
            {"Name": b.path.rpartition("/")[2], "Path": b.path, "Type": "blob", "Size": len(b.data), "Sha256": b.sha256}
            for b in repository.commits[commit].values()
        ]
        rows = [{**row, "Revision": commit, "IsLFS": False} for row in rows]
        folders = sorted({p for b in repository.commits[commit] for p in [b.rpartition("/")[0]] if p})
        rows += [{"Name": p, "Path": p, "Type": "tree", "Size": 0, "Sha256": "", "Revision": commit} for p in folders]
        size = int(query.get("PageSize", "0"))
        begin = (int(query.get("PageNumber", "1")) - 1) * size
        shown = rows[:MOST] if kind == "models" else rows[begin : begin + size]
        latest = {"Id": commit, "ShortId": commit[:8]}
        self.reply_json({"Code": 200, "Success": True, "Data": {"Files": shown, "LatestCommitter": latest}})

    def file(self, repository: Repository, commit: str, path: str) -> None:
        """A file, or where it is."""
        blob = repository.commits[commit].get(path)
        if blob is None:
            return self.reply_json(NOT_FOUND, 404)
        if blob.lfs:
            return self.reply(302, headers={"Location": f"{self.notes.cdn}/oss/{blob.sha256}?X-Amz-Signature=signed"})
        return self.send_file(path, blob.data)


@contextmanager
def local_modelscope() -> Iterator[LocalHub]:
    """A ModelScope while the block lasts."""
    hub = LocalHub()
    with (
        serving(type("ModelScope", (ModelScopeHandler,), {"notes": hub})) as server,
        serving(type("Oss", (CdnHandler,), {"notes": hub})) as cdn,
    ):
        hub.endpoint, hub.cdn = server.url, cdn.url
        yield hub
