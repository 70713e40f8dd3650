"""ModelScope (FT_HUB=modelscope) by its public HTTP interface: a listing with hashes, files by commit."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.files import digest
from tuneloop.core.settings import Settings
from tuneloop.tools.hub.http import (
    busy_answer,
    connection_lost,
    gated_error,
    http_client,
    missing_error,
    no_hub_error,
    open_url,
)
from tuneloop.tools.hub.listing import HubListing, HubRequest, RemoteFile

if TYPE_CHECKING:
    import httpx2

PUBLIC = "https://www.modelscope.cn"
TOKEN, ADDRESS = "MODELSCOPE_API_TOKEN", "MODELSCOPE_ENDPOINT"
PAGE, MOST = 200, 3000
BAD, MISSING, DENIED = 400, 404, (401, 403)


class ModelScope:
    """`name`, `endpoint`, the setting that names it, and the headers that go to the endpoint alone."""

    def __init__(self, settings: Settings) -> None:
        """Raises InvalidRequestError when MODELSCOPE_ENDPOINT is no address."""
        self.variable = ADDRESS
        self.name = "modelscope"
        self.endpoint = (settings.modelscope_endpoint or PUBLIC).rstrip("/")
        if not self.endpoint.startswith(("http://", "https://")):
            raise InvalidRequestError(f"{ADDRESS}={self.endpoint}: right is an address such as {PUBLIC}")
        secret = settings.modelscope_token
        token = secret.get_secret_value() if secret else ""
        self.headers = {"Authorization": f"Bearer {token}", "Cookie": f"m_session_id={token}"} if token else {}

    def listing(self, wanted: HubRequest) -> HubListing:
        """All files at the revision. Raises InvalidRequestError, InfrastructureError, or Busy."""
        import httpx2

        try:
            with http_client() as http:
                pages = list(self._pages(http, wanted))
            rows = [row for page in pages for row in page["Files"] if row["Type"] != "tree"]
            files = tuple(map(_remote, rows))
            commit = (pages[0].get("LatestCommitter") or {}).get("Id")
            return HubListing(commit=str(commit or digest(*(f"{f.path} {f.revision}" for f in files))), files=files)
        except httpx2.HTTPError as e:
            raise connection_lost(self, e) from e
        except (ValueError, TypeError, KeyError, AttributeError) as e:
            raise no_hub_error(self.endpoint, ADDRESS, PUBLIC) from e

    def _pages(self, http: httpx2.Client, wanted: HubRequest) -> Iterator[dict[str, Any]]:
        """Models are listed at once, data sets by pages."""
        asked = {"Revision": wanted.revision or "master", "Recursive": "True"}
        if wanted.kind == "model":
            page = self._page(http, wanted, "files", asked)
            if len(page["Files"]) >= MOST:
                raise InfrastructureError(
                    f"{wanted}: ModelScope lists no more than {MOST} files of a model, and this one has more"
                )
            yield page
            return
        number, full = 1, True
        while full:
            page = self._page(http, wanted, "tree", {**asked, "PageNumber": str(number), "PageSize": str(PAGE)})
            yield page
            number, full = number + 1, len(page["Files"]) >= PAGE

    def _page(self, http: httpx2.Client, wanted: HubRequest, what: str, asked: dict[str, str]) -> dict[str, Any]:
        url = f"{self._place(wanted)}/repo/{what}?{urllib.parse.urlencode(asked)}"
        with open_url(http, self, url) as answer:
            if answer.status_code >= BAD:
                raise self.refusal(answer, wanted)
            answer.read()
            data: dict[str, Any] = answer.json()["Data"]
            return data

    def url(self, wanted: HubRequest, listing: HubListing, file: RemoteFile) -> str:
        """Where a file is asked for: at the commit that last changed it, which stays what it is."""
        asked = {"Revision": file.revision or listing.commit, "FilePath": file.path}
        return f"{self._place(wanted)}/repo?{urllib.parse.urlencode(asked)}"

    def _place(self, wanted: HubRequest) -> str:
        return f"{self.endpoint}/api/v1/{wanted.kind}s/{wanted.name}"

    def refusal(self, response: httpx2.Response, wanted: HubRequest) -> Exception:
        """What an answer of 400 or more means."""
        if busy := busy_answer(response, self.endpoint, TOKEN):
            return busy
        if response.status_code in DENIED:
            return gated_error(wanted, f"{self.endpoint}/{wanted.kind}s/{wanted.name}", TOKEN)
        if response.status_code == MISSING:
            return missing_error(
                wanted, f"{self.endpoint} (ids differ between hubs: unset FT_HUB for Hugging Face)", TOKEN
            )
        return no_hub_error(self.endpoint, ADDRESS, PUBLIC)


def _remote(row: dict[str, Any]) -> RemoteFile:
    """A file; one that is listed without its hash can be checked by its size alone."""
    return RemoteFile(
        path=row["Path"], size=row["Size"], sha256=row.get("Sha256") or "", revision=row.get("Revision") or ""
    )
