"""What cannot be had is one line that says what would be right; a token is seen by its hub and by nobody else."""

from __future__ import annotations

import json
import logging
from email.utils import formatdate
from pathlib import Path

import pytest

from tests.hub.repository import Blob
from tests.hub.sending import Sender, serving
from tests.hub.server import GOOD, STRANGER, LocalHub
from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.settings import Settings
from tuneloop.tools.hub import http
from tuneloop.tools.hub.download import Download
from tuneloop.tools.hub.fetch import fetch_repository
from tuneloop.tools.hub.http import HubBusyError, RetryWaits

SUMS = "example/sums"
LIST, FILE = r"GET /api/datasets/example/sums", r"GET /datasets/example/sums/resolve"


def get(settings: Settings, name: str = SUMS) -> Path:
    return fetch_repository(name, "dataset", settings.home.root / "d", settings)


def said_by(settings: Settings, kind: type[Exception], name: str = SUMS) -> str:
    with pytest.raises(kind) as caught:
        get(settings, name)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 400
    assert not (settings.home.root / "d").exists()
    return text


@pytest.mark.parametrize("token", [None, STRANGER])
def test_a_gated_set_names_the_page_where_its_licence_is_accepted(
    hub: LocalHub, tmp_path: Path, token: str | None
) -> None:
    hub.close("datasets", SUMS, "gated")
    settings = Settings(FT_FILE_PATH=tmp_path, HF_TOKEN=token)
    text = said_by(settings, InvalidRequestError)
    assert f"accept its licence at {hub.endpoint}/datasets/example/sums, then set HF_TOKEN" in text
    assert (get(Settings(FT_FILE_PATH=tmp_path, HF_TOKEN=GOOD)) / "README.md").is_file()


def test_what_is_private_or_not_there(hub: LocalHub, settings: Settings, tmp_path: Path) -> None:
    assert f"dataset d/none is not on {hub.endpoint} (or is private: set HF_TOKEN" in said_by(
        settings, InvalidRequestError, "d/none"
    )
    hub.close("datasets", SUMS, "private")
    stranger = Settings(FT_FILE_PATH=tmp_path, HF_TOKEN=STRANGER)
    assert "is not on" in said_by(stranger, InvalidRequestError)
    assert "no hub has such a name" in said_by(settings, InvalidRequestError, "d/a--b..c")


def test_a_token_that_is_none(hub: LocalHub, tmp_path: Path) -> None:
    wrong = Settings(FT_FILE_PATH=tmp_path, HF_TOKEN="hf_wrong")
    assert f"HF_TOKEN is refused by {hub.endpoint}: make a new one" in said_by(wrong, InvalidRequestError)
    hub.fail(FILE, status=403, times=None)
    assert "may not be read (403)" in said_by(Settings(FT_FILE_PATH=tmp_path), InvalidRequestError)


@pytest.mark.parametrize("where", [LIST, FILE], ids=["list", "file"])
def test_a_busy_hub_is_waited_for_as_long_as_it_asks(
    hub: LocalHub, settings: Settings, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(RetryWaits.__init__, "__defaults__", (waited.append,))
    hub.fail(where, status=429, headers={"Retry-After": "7"})
    hub.fail(where, status=503, times=2)
    monkeypatch.setattr(Download, "rest", lambda self, seconds: waited.append(seconds))
    get(settings)
    assert max(waited) == 7
    assert len(waited) == 3


@pytest.mark.parametrize(
    ("status", "headers", "said"),
    [
        (429, {}, "takes no more requests now (429; with HF_TOKEN it takes more); asked 5 times: later again"),
        (429, {"Retry-After": "3600"}, "it asks for a pause of 3600 s: then again"),
        (429, {"RateLimit": '"api";r=0;t=900'}, "it asks for a pause of 900 s"),
        (503, {"Retry-After": "900"}, "fails (503); it asks for a pause"),
        (500, {}, "fails (500); asked 5 times: later again"),
        (504, {}, "fails (504); asked 5 times"),
    ],
)
def test_patience_ends(hub: LocalHub, settings: Settings, status: int, headers: dict[str, str], said: str) -> None:
    hub.fail(LIST, status=status, headers=headers, times=None)
    assert said in said_by(settings, InfrastructureError)
    assert hub.count(LIST) in (1, 5)


def test_a_date_to_come_back_at_is_understood(hub: LocalHub, settings: Settings) -> None:
    hub.fail(LIST, status=429, headers={"Retry-After": formatdate(4_000_000_000, usegmt=True)})
    assert "it asks for a pause of" in said_by(settings, InfrastructureError)


def test_no_network_and_a_wrong_address(tmp_path: Path, hub: LocalHub) -> None:
    nowhere = Settings(FT_FILE_PATH=tmp_path, HF_ENDPOINT="http://127.0.0.1:9")
    assert "http://127.0.0.1:9 cannot be reached (ConnectError): check the network or HF_ENDPOINT" in said_by(
        nowhere, InfrastructureError
    )
    bare = Settings(FT_FILE_PATH=tmp_path, HF_ENDPOINT="hf-mirror.example")
    assert "HF_ENDPOINT=hf-mirror.example: right is an address such as https://huggingface.co" in said_by(
        bare, InvalidRequestError
    )
    hub.fail("GET /", status=404, body=b"<html>nginx</html>", times=None)
    settings = Settings(FT_FILE_PATH=tmp_path)
    assert "does not answer as a hub does: HF_ENDPOINT must be https://huggingface.co or a mirror" in said_by(
        settings, InfrastructureError
    )
    hub.faults.clear()
    for body in (b"<html>welcome</html>", b"{}", b'{"id": "x"}', json.dumps({"id": "x", "sha": "a"}).encode()):
        hub.fail(LIST, status=200, body=body)
        assert "does not answer as a hub does" in said_by(settings, InfrastructureError)


def test_the_other_host_fails(hub: LocalHub, settings: Settings) -> None:
    hub.fail("GET /repos/", status=403)
    assert get(settings), "an address that was signed too long ago is asked for anew"
    hub.fail("GET /repos/", status=403, times=None)
    with pytest.raises(
        InfrastructureError, match=r"the host that http.* sends files from fails \(403\); asked 5 times"
    ):
        fetch_repository(SUMS, "dataset", settings.home.root / "e", settings)


def test_a_file_that_is_listed_and_not_there(hub: LocalHub, settings: Settings) -> None:
    hub.fail(FILE + ".*README", status=404, headers={"X-Error-Code": "EntryNotFound"})
    assert "lists README.md at" in said_by(settings, InfrastructureError)
    assert (get(settings) / "README.md").is_file()


class Elsewhere(Sender):
    """A host that redirects lead to."""

    def answer(self) -> None:
        self.reply(200, Blob("x", b"").data)


def test_the_token_is_sent_to_the_endpoint_alone_and_never_said(
    hub: LocalHub, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = GOOD
    settings = Settings(FT_FILE_PATH=tmp_path, HF_TOKEN=secret)
    stranger = LocalHub()
    with serving(type("Other", (Elsewhere,), {"notes": stranger})) as other:
        hub.fail(LIST, status=307, headers={"Location": f"{other.url}/api/datasets/x"})
        texts = [said_by(settings, InfrastructureError)]
        hub.fail(FILE, status=302, headers={"Location": f"{other.url}/file"}, times=None)
        texts.append(said_by(settings, InfrastructureError))
        assert len(stranger.asked) > 1
        assert {a.authorization for a in stranger.asked} == {None}
    hub.faults.clear()
    hub.fail(LIST, status=500, times=None)
    texts.append(said_by(Settings(FT_FILE_PATH=tmp_path / "b", HF_TOKEN=secret), InfrastructureError))
    hub.faults.clear()
    folder = get(settings)
    assert {a.authorization for a in hub.asked if a.server == "cdn"} == {None}
    assert {a.authorization for a in hub.asked if a.server == "hub"} == {f"Bearer {secret}"}
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    everything = [
        *texts,
        caplog.text,
        *capfd.readouterr(),
        repr(settings),
        *(p.read_bytes().decode("latin-1") for p in files),
    ]
    assert folder / "README.md" in files
    assert not [text for text in everything if secret in text]


def test_no_token_of_this_machine_is_borrowed(
    hub: LocalHub, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.utils._headers.get_token", lambda: GOOD)
    get(settings)
    assert {a.authorization for a in hub.asked} == {None}


def test_patience_begins_anew_when_something_came() -> None:
    waited: list[float] = []
    patience = RetryWaits(waited.append)
    for _ in range(20):
        patience.again(HubBusyError("x"), moved=True)
    assert len(waited) == 20
    for _ in http.WAITS[1:]:
        patience.again(HubBusyError("x"))
    with pytest.raises(InfrastructureError, match="asked 5 times"):
        patience.again(HubBusyError("x"))
