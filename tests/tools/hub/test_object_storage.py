"""Models and data sets from object storage: as from a hub, and what a storage may hold that a hub does not."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.object_store import Store, ask, forget_clients, killed_when
from tuneloop.core.errors import InfrastructureError, InvalidRequestError, ToolError
from tuneloop.core.files import read_json
from tuneloop.core.settings import Settings, load_settings
from tuneloop.tools.hub import datasets, models, object_storage
from tuneloop.tools.hub.download import download_files
from tuneloop.tools.hub.fetch import fetch_objects
from tuneloop.tools.hub.listing import HubRequest
from tuneloop.tools.hub.object_storage import ObjectHub, Storage, listed_objects
from tuneloop.tools.hub.store import MANIFEST
from tuneloop.tools.runs.request import OpenFolders

LARGE = 48 << 20
FETCH = (
    "import sys; from pathlib import Path; from tuneloop.tools.hub.fetch import fetch_objects;"
    "fetch_objects(sys.argv[1], 'model', Path(sys.argv[2]))"
)


def names(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def put_model(store: Store) -> None:
    for name, data in {"config.json": b"{}", "tokenizer_config.json": b"{}", "model.safetensors": b"\0" * 1000}.items():
        store.put(f"m/{name}", data)
    for name in ("pytorch_model.bin", "optimizer.pt", "modeling.py"):
        store.put(f"m/{name}", b"code")


def test_a_model_is_whole_and_holds_no_code_and_no_pickle(store: Store, tmp_path: Path) -> None:
    put_model(store)
    title, folder = fetch_objects(f"{store.url}/m", "model", tmp_path)
    assert (title, names(folder)) == ("m", {"config.json", "tokenizer_config.json", "model.safetensors", MANIFEST})
    assert read_json(folder / MANIFEST)["source"] == f"{store.url}/m"
    written = (folder / MANIFEST).stat().st_ino
    assert fetch_objects(f"{store.url}/m/", "model", tmp_path) == (title, folder)
    assert (folder / MANIFEST).stat().st_ino == written, "what is there is not fetched again"


def test_a_changed_object_is_noticed_and_told(store: Store, tmp_path: Path) -> None:
    said: list[str] = []
    put_model(store)
    _, first = fetch_objects(f"{store.url}/m", "model", tmp_path, lambda what, *_: said.append(what))
    assert not any("has changed" in what for what in said)
    store.put("m/config.json", b"{ }")
    _, second = fetch_objects(f"{store.url}/m", "model", tmp_path, lambda what, *_: said.append(what))
    assert ((first / "config.json").read_bytes(), (second / "config.json").read_bytes()) == (b"{}", b"{ }")
    assert any("has changed since it was fetched" in what for what in said)


@pytest.mark.parametrize("data", [b"short", b"other bytes of the same size"], ids=["truncated", "changed"])
def test_an_object_changed_while_it_is_fetched_is_not_used(store: Store, tmp_path: Path, data: bytes) -> None:
    store.put("d/rows.jsonl", b"first bytes of the same size")
    storage, wanted = Storage(f"{store.url}/d"), HubRequest(f"{store.url}/d", "dataset")
    listing = listed_objects(storage, storage.listing())
    store.put("d/rows.jsonl", data)
    with pytest.raises(InfrastructureError, match="does not have it; again, and it is listed anew"):
        download_files(ObjectHub(storage, lambda _: listing), wanted, tmp_path / "part", lambda *_: None)
    assert not (tmp_path / "part" / "rows.jsonl").exists()
    _, folder = fetch_objects(f"{store.url}/d", "dataset", tmp_path)
    assert (folder / "rows.jsonl").read_bytes() == data


def test_kill_9_in_the_middle_costs_nothing_that_had_come(store: Store, tmp_path: Path) -> None:
    store.put("m/model.safetensors", b"\7" * LARGE)

    def came() -> int:
        begun = tmp_path.glob("storage/.*.part/.download/*")
        return sum(p.stat().st_size for p in begun if p.name != "plan.json")

    killed_when(lambda: came() > 0, FETCH, f"{store.url}/m", str(tmp_path))
    assert list(tmp_path.glob("storage/[!.]*")) == [], "half of it is not believed"
    there, said = came(), list[int]()
    assert 0 < there < LARGE
    _, folder = fetch_objects(f"{store.url}/m", "model", tmp_path, lambda _, done, __: said.append(done))
    assert (folder / "model.safetensors").read_bytes() == b"\7" * LARGE
    assert min(said[1:]) >= there // 1_000_000, "it went on where it was cut"


def test_one_object_is_a_data_set(store: Store, tmp_path: Path) -> None:
    store.put("d/rows.jsonl", b'{"a": 1}\n')
    store.put("d/other.jsonl", b"")
    settings = Settings(FT_FILE_PATH=tmp_path)
    found = datasets.resolve_dataset(f"{store.url}/d/rows.jsonl", settings.home, settings)
    assert (found.dataset.name, names(found.root)) == ("rows", {"rows.jsonl", MANIFEST})


def test_a_model_that_is_code_is_refused_as_from_a_hub(store: Store, tmp_path: Path) -> None:
    settings = Settings(FT_FILE_PATH=tmp_path)
    for name in ("config.json", "tokenizer_config.json", "weights.pkl", "model.pt"):
        store.put(f"m/{name}", b"{}")
    with pytest.raises(InvalidRequestError, match=r"no \*\.safetensors in it"):
        models.resolve_model(f"{store.url}/m", settings, lambda *_: None)


@pytest.mark.parametrize("key", ["../up", "a/../../up", "/etc/x", "manifest.json", ".download/plan.json", "a\\b"])
def test_names_that_lead_elsewhere_are_refused(s3: Store, tmp_path: Path, key: str) -> None:
    s3.put(f"d/{key}", b"x")
    with pytest.raises(InvalidRequestError, match="cannot lie in a folder"):
        fetch_objects(f"{s3.url}/d", "dataset", tmp_path / "datasets")
    assert not any(tmp_path.rglob("*up*")) and not any(tmp_path.rglob("x"))


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "rows.jsonl").symlink_to("/etc/passwd")
    with pytest.raises(InvalidRequestError, match="is a symbolic link; right is the file itself"):
        fetch_objects(f"file://{tmp_path}/d", "dataset", tmp_path / "home")
    (tmp_path / "e").symlink_to(tmp_path / "d")
    for link in ("d/rows.jsonl", "e"):
        with pytest.raises(InvalidRequestError, match="is a symbolic link; right is the file itself"):
            fetch_objects(f"file://{tmp_path}/{link}", "dataset", tmp_path / "home")


def test_a_listing_is_bounded(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_storage, "MOST", 3)
    for number in range(6):
        store.put(f"d/{number}", b"")
    with pytest.raises(InvalidRequestError, match="holds more than 3 objects: name a folder of it that holds fewer"):
        fetch_objects(f"{store.url}/d", "dataset", tmp_path)


def test_pages_are_followed_and_empty_folders_passed_over(s3: Store) -> None:
    files = Storage(s3.url).files
    for number in range(5):
        s3.put(f"d/{number}", b"")
    s3.put("d/folder/", b"")
    plain = files.call_s3
    files.call_s3 = lambda method, **more: plain(
        method, **more, **({"MaxKeys": 2} if method == "list_objects_v2" else {})
    )
    storage = Storage(f"{s3.url}/d")
    storage.files = files
    assert sorted(f.path for f in storage.listing()) == ["0", "1", "2", "3", "4"]


def test_what_is_not_there_is_one_line(store: Store, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="is not there: no such bucket, folder or object"):
        fetch_objects(f"{store.url}/nothing", "model", tmp_path)


def test_no_bucket_no_account_no_network_are_one_line(s3: Store, tmp_path: Path, monkeypatch) -> None:
    with pytest.raises(InvalidRequestError, match="s3://none/x is not there: no such bucket"):
        fetch_objects("s3://none/x", "model", tmp_path)
    ask(f"{s3.server}/moto-api/reset-auth", "0")  # from now on the account counts
    try:
        with pytest.raises(InvalidRequestError, match="may not be used: right is AWS_ACCESS_KEY_ID") as refused:
            fetch_objects(s3.url, "model", tmp_path)
    finally:
        ask(f"{s3.server}/moto-api/reset-auth", "1000000")
    assert "AKIA" not in str(refused.value)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    forget_clients()
    with pytest.raises(InfrastructureError, match=r"cannot be reached or fails \(\w+\).*asked 5 times: later again"):
        fetch_objects(s3.url, "model", tmp_path)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    forget_clients()
    with pytest.raises(InvalidRequestError, match="may not be used: right is AWS_ACCESS_KEY_ID"):
        fetch_objects(s3.url, "model", tmp_path)
    forget_clients()


@pytest.mark.parametrize(
    "url", ["s3://", "s3://key:secret@lab/x", "file://relative", "s3://lab/../x", "s3://lab//x", "http://lab/x"]
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(InvalidRequestError, match="right is s3://bucket/path"):
        Storage(url)
    with pytest.raises(InvalidRequestError, match=r"TUNELOOP_STORAGE.*right is s3://bucket/path"):
        load_settings(storage=url)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(InvalidRequestError, match=r"gs://lab/m needs: pip install 'tuneloop\[gcs\]'"):
        models.check_model("gs://lab/m")


def test_clients_of_the_servers_name_no_storage(tmp_path: Path) -> None:
    given = OpenFolders(Settings(FT_FILE_PATH=tmp_path).home, (Path("/"),))
    with pytest.raises(ToolError, match="is not open to you"):
        given.confined("file:///etc", [])


def test_of_many_who_make_an_object_one_has_it(store: Store) -> None:
    """A lost answer is asked again: who has it is told so each time."""
    names = [f"node {i}".encode() for i in range(8)]
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda name: Storage(store.url).create("jobs/claim", name), names))
    (owner,) = (name for name, one in zip(names, won, strict=True) if one)
    assert store.get("jobs/claim") == owner
    assert [Storage(store.url).create("jobs/claim", name) for name in names] == won
