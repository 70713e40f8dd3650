"""A run in object storage: copied whole or not believed, brought back the same, whatever is killed, cut or lied about."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.crash.damage import make_home
from tests.object_store import Store, killed_when
from tests.waiting import until
from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.files import read_lines, write_atomic, write_json
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.settings import Settings
from tuneloop.graph.lifecycle.mirrored import mirrored
from tuneloop.tools.hub import http
from tuneloop.tools.runs.mirror import check_mirror, pull_run, push_run, storage_of

SECRET = "what-the-sealed-test-asks"
PUSH = (
    "import sys; from pathlib import Path; from tuneloop.core.layout import RunFolder; from tuneloop.tools.runs import mirror;"
    "mirror.push_run(RunFolder(Path(sys.argv[1])), sys.argv[2], lambda *_: None)"
)
PULL = (
    "import sys; from pathlib import Path; from tuneloop.core.layout import Home; from tuneloop.tools.runs import mirror;"
    "mirror.pull_run(Home(Path(sys.argv[1])), 'open', sys.argv[2], lambda *_: None)"
)


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "WAITS", (0.0, 0.0))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """With a run `done` and a run `open`, in both of which sealed items lie where they are put."""
    root = tmp_path / "home"
    make_home(root)
    for run in (root / "runs" / "done", root / "runs" / "open"):
        for place in ("final/test.json", "final/jobs/evaluate.1/log.txt", "work/evaluate.input/items.json"):
            write_atomic(run / place, SECRET)
        write_atomic(run / "experiments" / "001" / "work" / "evaluate" / "items.json", SECRET)
        write_atomic(run / "experiments" / "001" / "model" / "model.safetensors", b"\3" * (5 << 20))
    return Home(root)


def push(run: RunFolder, store: Store) -> list[str]:
    return sorted(push_run(run, store.url, lambda *_: None).files)


def pull(home: Home, name: str, store: Store) -> RunFolder:
    return pull_run(home, name, store.url, lambda *_: None)


def manifest(store: Store, run: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(store.get(f"runs/{run}/manifest.json"))
    return found


def rewrite(store: Store, run: str, change: Any) -> None:
    found = manifest(store, run)
    change(found)
    store.put(f"runs/{run}/manifest.json", json.dumps(found).encode())


def content(run: RunFolder, names: list[str]) -> dict[str, bytes]:
    return {name: (run.root / name).read_bytes() for name in names}


def test_a_run_comes_back_as_it_was_without_sealed_items(home: Home, store: Store, tmp_path: Path) -> None:
    run, other = home.run("done"), Home(tmp_path / "other")
    names = push(run, store)
    assert {"run.yaml", "report.json", "experiments/002/scores.json", "experiments/001/model/model.safetensors"} <= set(
        names
    )
    assert not [n for n in names if re.search(r"work/|lock|checkpoint|signature|final/test|datasets", n)]
    objects = store.objects("/runs/done")
    assert set(objects) == {
        "manifest.json",
        "report.md",
        *(f"objects/{f['sha256']}" for f in manifest(store, "done")["files"].values()),
    }
    assert not [key for key in objects if SECRET.encode() in store.get(f"runs/done/{key}")]
    back = pull(other, "done", store)
    assert content(back, names) == content(run, names)
    assert sorted(p.relative_to(back.root).as_posix() for p in back.root.rglob("*") if p.is_file()) == names
    assert [row["run"] for row in read_lines(other.benchmarks / "reads.jsonl")] == ["done"], (
        "who opened the test is known"
    )
    with pytest.raises(InvalidRequestError, match="run done is here"):
        pull(other, "done", store)


def test_what_is_there_is_not_sent_again_and_what_went_is_removed(home: Home, store: Store) -> None:
    run = home.run("open")
    push(run, store)
    before = store.objects("/runs/open/objects")
    weights = hashlib.sha256(b"\3" * (5 << 20)).hexdigest()
    (run.experiment(1).model / "model.safetensors").unlink()
    write_atomic(run.experiment(2).config, "stage: sft\nseed: 3\n")
    push(run, store)
    after = store.objects("/runs/open/objects")
    assert weights in before and weights not in after
    assert {name: mark for name, mark in after.items() if name in before}.items() <= before.items()
    assert len(after.keys() - before.keys()) == 1


def test_neither_a_lease_nor_what_a_link_leads_to_nor_an_odd_name_is_copied(home: Home, tmp_path: Path) -> None:
    run, store = home.run("open"), Store(f"file://{tmp_path}/store")
    write_atomic(run.root / "lease" / "1.json", "{}")
    write_atomic(run.root / "a\\b", "x")
    write_atomic(tmp_path / "private", "private")
    run.report.unlink(missing_ok=True)
    run.report.symlink_to(tmp_path / "private")
    assert not [name for name in push(run, store) if "lease" in name or "\\" in name or name == "report.md"]
    assert "report.md" not in store.objects("/runs/open")


def test_an_opened_test_is_noted_before_the_run_is_there(home: Home, tmp_path: Path, monkeypatch) -> None:
    store, other = Store(f"file://{tmp_path}/store"), Home(tmp_path / "other")
    push(home.run("done"), store)
    rename = Path.rename

    def killed(path: Path, target: Path) -> Path:
        if target == other.run("done").root:
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        pull(other, "done", store)
    assert [row["run"] for row in read_lines(other.benchmarks / "reads.jsonl")] == ["done"]


def test_of_an_open_experiment_no_job_and_no_half_model(home: Home, store: Store) -> None:
    run = home.run("open")
    write_atomic(run.experiment(3).model / "model.safetensors", b"half")
    run.experiment(3).result.unlink(missing_ok=True)
    run.experiment(3).training.unlink(missing_ok=True)
    found = [name for name in push(run, store) if name.startswith("experiments/003/")]
    assert "experiments/003/hypothesis.json" in found
    assert not [name for name in found if "/jobs/" in name or "/model/" in name]


def test_a_killed_push_is_not_believed_and_the_next_one_goes_on(home: Home, store: Store, tmp_path: Path) -> None:
    run = home.run("open")
    for number in range(60):
        write_atomic(run.experiment(1).model / f"part-{number}.safetensors", bytes([number]) * 200_000)
    killed_when(lambda: len(store.objects("/runs/open")) > 20, PUSH, str(run.root), store.url)
    begun = store.objects("/runs/open")
    assert "manifest.json" not in begun
    with pytest.raises(InvalidRequestError, match="no run 'open' in"):
        pull(Home(tmp_path / "other"), "open", store)
    names = push(run, store)
    whole = {name: mark for name, mark in begun.items() if not name.endswith(".part")}
    assert whole.items() <= store.objects("/runs/open").items(), "nothing was sent twice"
    assert content(pull(Home(tmp_path / "other"), "open", store), names) == content(run, names)


def test_a_killed_pull_is_not_believed_and_the_next_one_goes_on(home: Home, store: Store, tmp_path: Path) -> None:
    run, other = home.run("open"), Home(tmp_path / "other")
    for number in range(60):
        write_atomic(run.experiment(1).model / f"part-{number}.safetensors", bytes([number]) * 200_000)
    names = push(run, store)

    def came() -> dict[Path, int]:
        return {p: p.stat().st_ino for p in other.root.glob("runs/.open.*.part/experiments/**/*.safetensors")}

    killed_when(lambda: len(came()) > 10, PULL, str(other.root), store.url)
    before = {path.name: inode for path, inode in came().items()}
    assert not (other.runs / "open").exists()
    back = pull(other, "open", store)
    assert content(back, names) == content(run, names)
    assert before.items() <= {p.name: p.stat().st_ino for p in back.experiment(1).model.iterdir()}.items()


@pytest.mark.parametrize("data", [b"\3" * 99, b"\4" * (5 << 20)], ids=["truncated", "changed"])
def test_an_object_that_is_not_its_hash_is_refused(home: Home, store: Store, tmp_path: Path, data: bytes) -> None:
    run, other = home.run("done"), Home(tmp_path / "other")
    names = push(run, store)
    store.put(f"runs/done/objects/{hashlib.sha256(bytes([3]) * (5 << 20)).hexdigest()}", data)
    with pytest.raises(InfrastructureError, match=r"sends less of|does not have the hash"):
        pull(other, "done", store)
    assert not (other.runs / "done").exists()
    if len(data) < 5 << 20:
        push(run, store)
        assert content(pull(other, "done", store), names) == content(run, names)


@pytest.mark.parametrize("name", ["../up", "a/../../up", "/etc/x", ".download/x", "a\\b", "", "."])
def test_a_hostile_manifest_writes_nothing_outside(home: Home, tmp_path: Path, name: str) -> None:
    store, other = Store(f"file://{tmp_path}/store"), Home(tmp_path / "other")
    push(home.run("done"), store)
    rewrite(store, "done", lambda found: found["files"].update({name: found["files"]["run.yaml"]}))
    with pytest.raises(InvalidRequestError, match="cannot lie in a folder"):
        pull(other, "done", store)
    assert not [p for p in tmp_path.rglob("*up") if p.is_file()]


def test_what_is_never_copied_is_never_taken(home: Home, tmp_path: Path) -> None:
    store, other = Store(f"file://{tmp_path}/store"), Home(tmp_path / "other")
    push(home.run("done"), store)
    odd = ("signature.json", "lock", "checkpoint.sqlite", "datasets/x", "work/x")
    rewrite(store, "done", lambda found: found["files"].update(dict.fromkeys(odd, found["files"]["run.yaml"])))
    rewrite(store, "done", lambda found: found.update(openings=[{"test": "t", "run": "another"}]))
    back = pull(other, "done", store)
    assert not [name for name in odd if (back.root / name).exists()]
    readers = [row["run"] for row in read_lines(other.benchmarks / "reads.jsonl")]
    assert readers == ["done"], "a finished run has opened its test, whatever is said, and says nothing of others"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"{", "not what `tuneloop push` writes"),
        (b"[]", "not what"),
        (b"9" * 99, "is larger than 9 bytes: it is none of ours"),
    ],
)
def test_a_manifest_that_is_none(home: Home, tmp_path: Path, data: bytes, said: str, monkeypatch) -> None:
    store = Store(f"file://{tmp_path}/store")
    store.put("runs/done/manifest.json", data)
    monkeypatch.setattr("tuneloop.tools.runs.mirror.LARGEST", 9)
    for act in (lambda: pull(Home(tmp_path / "other"), "done", store), lambda: push(home.run("done"), store)):
        with pytest.raises(InvalidRequestError, match=said):
            act()


def test_neither_another_run_nor_more_of_this_one_is_written_over(home: Home, tmp_path: Path) -> None:
    store, run = Store(f"file://{tmp_path}/store"), home.run("open")
    push(run, store)
    rewrite(store, "open", lambda found: found.update(experiments=9))
    with pytest.raises(InvalidRequestError, match="holds 9 experiments of run open, more than are here"):
        push(run, store)
    rewrite(store, "open", lambda found: found.update(experiments=0))
    push(run, store)
    result = "experiments/001/experiment.json"
    rewrite(store, "open", lambda found: found["files"].update({result: found["files"]["run.yaml"]}))
    with pytest.raises(InvalidRequestError, match=f"holds another {result} of run open than is here"):
        push(run, store)
    rewrite(store, "open", lambda found: found.update(files={}, created="2020"))
    with pytest.raises(InvalidRequestError, match="holds another run of this name, begun 2020"):
        push(run, store)


def test_a_run_at_work_is_copied_after_each_experiment_and_at_its_end(home: Home, store: Store, monkeypatch) -> None:
    monkeypatch.setattr("tuneloop.graph.lifecycle.mirrored.GLANCE", 0.01)
    run = home.run("open")
    result = json.loads(run.experiment(2).result.read_text())
    with mirrored(run, Settings(FT_FILE_PATH=home.root, TUNELOOP_STORAGE=store.url)):
        write_json(run.experiment(3).result, {**result, "number": 3})
        until(lambda: "manifest.json" in store.objects("/runs/open"), 60)
        assert manifest(store, "open")["experiments"] == 3
        write_atomic(run.report, "# The end\n")
    assert "report.md" in manifest(store, "open")["files"]


@pytest.mark.parametrize("error", [InfrastructureError, KeyboardInterrupt])
def test_a_run_that_stops_is_copied_unless_somebody_waits(home: Home, tmp_path: Path, error, caplog) -> None:
    run, store = home.run("open"), Store(f"file://{tmp_path}/store")
    with pytest.raises(error), mirrored(run, Settings(FT_FILE_PATH=home.root, TUNELOOP_STORAGE=store.url)):
        raise error
    if error is KeyboardInterrupt:
        assert "later: tuneloop push open" in caplog.text
    else:
        assert "experiments/003/hypothesis.json" in manifest(store, "open")["files"], "also what is not over"


def test_a_storage_that_fails_is_told_and_loses_nothing(home: Home, tmp_path: Path, caplog) -> None:
    run, store = home.run("open"), Store(f"file://{tmp_path}/store")
    write_atomic(tmp_path / "store", "a file where a folder should be")
    with mirrored(run, Settings(FT_FILE_PATH=home.root, TUNELOOP_STORAGE=store.url)):
        write_atomic(run.report, "# The end\n")
    assert "run open is not wholly copied, and goes on" in caplog.text and "later: tuneloop push open" in caplog.text
    (tmp_path / "store").unlink()
    assert "report.md" in push(run, store)


def test_where_no_storage_is_named(home: Home) -> None:
    with pytest.raises(InvalidRequestError, match="right is --storage s3://bucket/path, or TUNELOOP_STORAGE"):
        storage_of(None)


def test_a_bucket_that_is_not_there_is_told_before_a_run_costs(s3: Store) -> None:
    check_mirror(s3.url)
    check_mirror(None)
    with pytest.raises(InvalidRequestError, match="s3://none/x is not there: no such bucket"):
        check_mirror("s3://none/x")
