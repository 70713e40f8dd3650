"""What is fetched, from where, and how it is pinned, checked and continued."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.hub.server import GOOD, LocalHub
from tests.small_disk import files_up_to
from tests.waiting import until
from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.files import read_json
from tuneloop.core.settings import Settings
from tuneloop.tools.hub.fetch import fetch_repository, is_hub_id
from tuneloop.tools.hub.store import MANIFEST

SMALL, SUMS = "example/small", "example/sums"
WEIGHTS = bytes(range(256)) * 4000
CDN, API = "GET /repos/", "GET /api/models/example/small"


def names(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def get(settings: Settings, name: str = SMALL, place: str = "m", **more: object) -> Path:
    kind = "dataset" if "sums" in name or name.startswith("d/") else "model"
    return fetch_repository(name, kind, settings.home.root / place, settings, **more)  # type: ignore[arg-type]


def test_a_model_is_whole_and_holds_no_code_and_no_pickle(hub: LocalHub, settings: Settings) -> None:
    folder = get(settings)
    assert names(folder) == {"config.json", "tokenizer_config.json", "model.safetensors", MANIFEST}
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    made = read_json(folder / MANIFEST)
    repository = hub.find("models", SMALL)
    assert repository
    assert (made["source"], made["hub"], made["commit"]) == (SMALL, "huggingface", repository.main)
    asked = len(hub.asked)
    get(settings)
    assert len(hub.asked) == asked, "what is there is not asked for again"


def test_pickled_weights_are_taken_only_where_there_are_no_others(hub: LocalHub, settings: Settings) -> None:
    hub.put("models", "m/old", {"config.json": b"{}", "pytorch_model.bin": b"pickle", "optimizer.pt": b"pickle"})
    assert names(get(settings, "m/old")) == {"config.json", "pytorch_model.bin", MANIFEST}


def test_patterns_say_what_is_taken_and_what_never(hub: LocalHub, settings: Settings) -> None:
    folder = get(settings, SUMS, files=("*.parquet",), without=("*test*",))
    assert names(folder) == {"data/train-00000-of-00001.parquet", MANIFEST}
    assert not any("test" in a.path for a in hub.asked)
    with pytest.raises(InvalidRequestError, match=r"has no file that is wanted \(\*\.csv\); it has README\.md"):
        get(settings, SUMS, place="n", files=("*.csv",))


def test_the_revision_is_pinned(hub: LocalHub, settings: Settings) -> None:
    first = hub.put("datasets", "d/x", {"a.jsonl": b"1\n"})
    second = hub.put("datasets", "d/x", {"a.jsonl": b"2\n"})
    for name, place, text in (("d/x", "1", b"2\n"), (f"d/x@{first}", "2", b"1\n"), (f"d/x@{second}", "3", b"2\n")):
        assert (get(settings, name, place) / "a.jsonl").read_bytes() == text
    with pytest.raises(
        InvalidRequestError, match=r"dataset d/x has no revision 'v9'; right is a commit, a tag or a branch"
    ):
        get(settings, "d/x@v9", "4")


@pytest.mark.parametrize(
    "path",
    ["../up.txt", "/etc/x.txt", "manifest.json", "a/../../b.txt", "a\\b.txt"],
    ids=["up", "root", "own", "in", "back"],
)
def test_file_outside_of_its_folder_is_refused(hub: LocalHub, settings: Settings, path: str) -> None:
    hub.put("datasets", "d/evil", {path: b"x"})
    with pytest.raises(InvalidRequestError, match="cannot lie in a folder"):
        get(settings, "d/evil")
    assert [p.name for p in settings.home.root.iterdir()] == [".m.lock"]


def test_a_cut_connection_is_taken_up_where_it_was_cut(hub: LocalHub, settings: Settings) -> None:
    for _ in range(7):  # more often than it is asked again without getting on
        hub.fail(CDN, cut=100_001)
    assert (get(settings) / "model.safetensors").read_bytes() == WEIGHTS
    ranges = [a.range for a in hub.asked if a.server == "cdn"]
    assert ranges == [None, *(f"bytes={n * 100_001}-" for n in range(1, 8))]
    assert sum(n for name, n in hub.sent.items() if len(name) == 64) == len(WEIGHTS), "no byte came twice"


def test_a_host_that_knows_no_ranges_sends_it_all_again(hub: LocalHub, settings: Settings) -> None:
    hub.fail(CDN, cut=100_000)
    hub.fail(CDN, ignore_range=True)
    assert (get(settings) / "model.safetensors").read_bytes() == WEIGHTS


def test_a_mirror_whose_file_is_shorter_is_given_up(hub: LocalHub, settings: Settings) -> None:
    for _ in range(40):  # its end, and that there is nothing behind it
        hub.fail(CDN, cut=100_000)
        hub.fail(CDN, status=416)
    with pytest.raises(InfrastructureError, match="asked 5 times"):
        get(settings)


FETCH = (
    "import sys; from pathlib import Path; from tuneloop.core.settings import Settings;"
    "from tuneloop.tools.hub.fetch import fetch_repository;"
    "fetch_repository('example/small', 'model', Path(sys.argv[1]) / 'm', Settings(FT_FILE_PATH=sys.argv[1]))"
)


def test_kill_9_in_the_middle_costs_nothing_that_had_come(hub: LocalHub, settings: Settings) -> None:
    held = hub.fail(CDN, hold=600_000)
    home = settings.home.root
    worker = subprocess.Popen([sys.executable, "-c", FETCH, str(home)])
    assert held.held.wait(60)
    begun = home / ".m.part" / ".download"
    until(lambda: any(p.stat().st_size == 600_000 for p in begun.glob("*")))
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    held.released.set()
    assert not (home / "m").exists(), "half of it is not believed"
    hub.put("models", SMALL, {"config.json": b"{}", "model.safetensors": b"of another commit"})
    folder = get(settings)
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS, "it is the commit that was begun with"
    assert sum(n for name, n in hub.sent.items() if len(name) == 64) == len(WEIGHTS)
    assert [a.range for a in hub.asked if a.server == "cdn"] == [None, "bytes=600000-"]
    assert hub.count(API + r"(\?|$)") == 1, "nothing is listed again"
    assert names(folder) == {"config.json", "tokenizer_config.json", "model.safetensors", MANIFEST}


def test_two_processes_at_once_fetch_once(hub: LocalHub, settings: Settings) -> None:
    held = hub.fail(CDN, hold=1000)
    argv = [sys.executable, "-c", FETCH, str(settings.home.root)]
    workers = [subprocess.Popen(argv) for _ in range(2)]
    assert held.held.wait(60)
    held.released.set()
    assert [w.wait(60) for w in workers] == [0, 0]
    assert sum(n for name, n in hub.sent.items() if len(name) == 64) == len(WEIGHTS)


def test_threads_at_once_fetch_once(hub: LocalHub, settings: Settings) -> None:
    threads = [threading.Thread(target=get, args=(settings,)) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert hub.count(CDN) == 1


def test_what_does_not_fit_is_not_begun(hub: LocalHub, settings: Settings) -> None:
    sha, big = "a" * 64, 1 << 60
    file = {
        "rfilename": "model.safetensors",
        "size": big,
        "blobId": "b" * 40,
        "lfs": {"sha256": sha, "size": big, "pointerSize": 1},
    }
    body = json.dumps({"id": "m/huge", "sha": "c" * 40, "siblings": [file]}).encode()
    hub.fail("GET /api/models/m/huge", status=200, body=body)
    with pytest.raises(
        InfrastructureError, match=r"model m/huge needs 1152921504\.6 GB and .* are free in .*tuneloop clean"
    ):
        get(settings, "m/huge")
    assert [p.name for p in settings.home.root.iterdir()] == [".m.lock"]


def test_a_disk_that_fills_up_is_one_line_and_what_came_stays(hub: LocalHub, settings: Settings) -> None:
    with (
        files_up_to(700_000),
        pytest.raises(
            InfrastructureError, match=r"File too large; what came is kept in \.m\.part: free some disk, then again$"
        ),
    ):
        get(settings)
    assert not (settings.home.root / "m").exists()
    assert (get(settings) / "model.safetensors").read_bytes() == WEIGHTS
    assert "bytes=700000-" in {a.range for a in hub.asked}


def test_what_is_changed_on_the_way_is_never_believed(hub: LocalHub, settings: Settings) -> None:
    hub.fail(CDN, corrupt=True)
    assert (get(settings) / "model.safetensors").read_bytes() == WEIGHTS, "once may be bad luck"
    hub.fail("GET /api/resolve-cache/models/example/small/.*/config.json", corrupt=True, times=None)
    with pytest.raises(InfrastructureError, match=r"config\.json does not have the hash that http.* lists, twice"):
        get(settings, place="n")
    assert not (settings.home.root / "n").exists()
    hub.faults.clear()
    assert (get(settings, place="n") / "config.json").read_bytes() == b'{"model_type": "qwen2"}\n'


def test_a_file_of_another_size_is_never_believed(hub: LocalHub, settings: Settings) -> None:
    hub.fail("resolve-cache.*tokenizer_config", longer=b" ", times=None)
    with pytest.raises(InfrastructureError, match=r"sends more of tokenizer_config\.json than it lists"):
        get(settings)
    hub.faults.clear()
    hub.fail("resolve-cache.*tokenizer_config", status=200, body=b"{", times=None)
    with pytest.raises(InfrastructureError, match=r"sends less of tokenizer_config\.json than it lists; asked 5 times"):
        get(settings)
    assert not (settings.home.root / "m").exists()


def test_progress_is_in_megabytes_and_ends(hub: LocalHub, settings: Settings) -> None:
    said: list[tuple[str, int, int]] = []
    hub.fail(CDN, cut=100_000)
    get(settings, progress=lambda *what: said.append(what))
    assert said[0] == ("model example/small (MB)", 0, 2)
    assert said[-1] == ("model example/small (MB)", 2, 2)


@pytest.mark.parametrize("kind", ["model", "dataset"])
def test_modelscope_by_option(modelscope: LocalHub, tmp_path: Path, kind: str) -> None:
    settings = Settings(FT_FILE_PATH=tmp_path, MODELSCOPE_API_TOKEN=GOOD)
    stored = "models" if kind == "model" else "datasets"
    files = {f"part/{n:03}.txt": b"%d" % n for n in range(210)} | {"all.parquet": b"PAR1" * 1000}
    first = modelscope.put(stored, "d/many", files)  # type: ignore[arg-type]
    modelscope.fail("GET /oss/", cut=1500)
    folder = fetch_repository("d/many", kind, tmp_path / "d", settings)  # type: ignore[arg-type]
    assert {n: (folder / n).read_bytes() for n in files} == files
    made = read_json(folder / MANIFEST)
    assert (made["hub"], made["commit"]) == ("modelscope", first)
    assert {(a.server, a.authorization) for a in modelscope.asked} == {("hub", f"Bearer {GOOD}"), ("cdn", None)}
    modelscope.fail("GET /api/v1/.*FilePath=part%2F007", corrupt=True, times=None)
    with pytest.raises(InfrastructureError, match="does not have the hash"):
        fetch_repository("d/many", kind, tmp_path / "e", settings)  # type: ignore[arg-type]


def test_what_modelscope_refuses(modelscope: LocalHub, tmp_path: Path) -> None:
    settings = Settings(FT_FILE_PATH=tmp_path)
    with pytest.raises(
        InvalidRequestError, match=r"dataset d/no is not on http.* \(ids differ between hubs: unset FT_HUB"
    ):
        fetch_repository("d/no", "dataset", tmp_path / "d", settings)
    modelscope.close("datasets", SUMS, "gated")
    with pytest.raises(
        InvalidRequestError, match=r"accept its licence at http.*/datasets/example/sums, then set MODELSCOPE_API_TOKEN"
    ):
        fetch_repository(SUMS, "dataset", tmp_path / "d", settings)


@pytest.mark.parametrize(
    ("name", "yes"),
    [("a/b", True), ("Qwen/Qwen2.5-7B", True), ("a/b@main", True), ("a", False), ("a/b/c", False), ("a/b@", False)],
)
def test_ids(name: str, yes: bool) -> None:
    assert is_hub_id(name) is yes
