"""What trackers are sent, and that the real libraries take it once; a missing, slow or refusing one costs a line."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.graph.telemetry.conftest import finish, read_back, sent
from tuneloop.cli.main import cli
from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.events import ExperimentFinished, NodeFinished
from tuneloop.core.files import read_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings
from tuneloop.graph.telemetry import tracker_process, trackers
from tuneloop.graph.telemetry.tracked import TrackedItem, tracked_items
from tuneloop.graph.telemetry.tracker_process import TrackerSender, check_trackers, feed_trackers
from tuneloop.graph.telemetry.trackers import TRACKERS, track

ROOT = Path(__file__).parents[3]


class Noted:
    """Keeps what it is sent; refuses item `refused`."""

    def __init__(self, refused: int | None = None) -> None:
        self.sent: list[TrackedItem] = []
        self.refused = refused

    def send(self, item: TrackedItem) -> None:
        if item.number == self.refused:
            raise ConnectionError("refused\nby a server")
        self.sent.append(item)


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> Noted:
    found = Noted()
    monkeypatch.setitem(TRACKERS, "wandb", lambda _: found)
    return found


def test_experiments_are_sent_with_config_scores_and_curve(run: RunFolder) -> None:
    first, second, whole = tracked_items(run, set())
    assert first.parameters == {
        "stage": "sft", "learning_rate": 1e-4, "lora_target": "all", "freeze_extra_modules": "['a', 'b']"
    }  # fmt: skip
    assert first.metrics["validation"] == 51 and first.metrics["gain"] == 1 and first.metrics["rows"] == 800
    assert first.curve == ((1, {"loss": 2.0, "lr": 1e-4}), (2, {"loss": 1.0, "lr": 1e-4}))
    assert [file.name for file in first.files] == ["train.yaml", "process_data.py"]
    assert first.tags["outcome"] == "not promoted"
    assert (second.parameters, second.curve, second.files) == ({}, (), ())
    assert whole.curve == ((1, {"validation": 51}), (2, {"validation": 52})) and whole.metrics == {
        "base_validation": 10
    }
    assert len({first.key, second.key, whole.key}) == 3
    assert [item.number for item in tracked_items(run, {1})] == [2, 0]


def test_the_sealed_test_is_sent_with_the_report_alone(run: RunFolder) -> None:
    before = list(tracked_items(run, set()))
    finish(run)
    *_, after = tracked_items(run, set())
    assert not any("test" in name for item in before for name in item.metrics) and not before[-1].files
    assert {name: value for name, value in after.metrics.items() if "test" in name} == {
        "base_test": 12.5, "best_test": 71, "test_gain": 58.5, "test_gain_low": 50, "test_gain_high": 66
    }  # fmt: skip
    assert after.files == (run.report,)


def test_no_item_of_a_benchmark_is_sent(run: RunFolder) -> None:
    assert "x" * 200 in (run.baseline / "scores.json").read_text()
    for item in tracked_items(run, set()):
        assert "x" * 200 not in repr(item)
        assert not any(b"x" * 200 in file.read_bytes() for file in item.files)


def test_what_was_sent_is_not_sent_again_and_what_was_refused_is(run: RunFolder, noted: Noted) -> None:
    noted.refused = 2
    with pytest.raises(
        InfrastructureError, match=r"^tracker wandb did not take it: ConnectionError: refused by a server$"
    ):
        list(track(run, "wandb"))
    assert [item.number for item in noted.sent] == [1] and read_json(run.trackers / "wandb.json") == [1]
    noted.refused = None
    assert [item.number for item in track(run, "wandb")] == [2, 0]
    assert [item.number for item in track(run, "wandb")] == [0]


def test_a_library_sees_no_secret_of_ours(run: RunFolder, noted: Noted, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "anthropic_api_key", "HF_TOKEN", "TUNELOOP_MCP_TOKEN", "TUNELOOP_CHECKPOINT_URL"):
        monkeypatch.setenv(name, "a secret")
    monkeypatch.setenv("WANDB_API_KEY", "its own")
    trackers.hide_secrets(keep={"HF_TOKEN"})
    assert [name for name, value in os.environ.items() if value == "a secret"] == ["HF_TOKEN"]
    list(track(run, "wandb"))
    assert "a secret" not in os.environ.values() and os.environ["WANDB_API_KEY"] == "its own"


def test_a_missing_library_or_server_is_told_before_anything_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for name in ("trackio", "wandb"):
        monkeypatch.setitem(tracker_process.LIBRARIES, name, f"no_{name}")
    with pytest.raises(InvalidRequestError, match=r"pip install 'tuneloop\[trackio\]'"):
        check_trackers(["trackio"])
    monkeypatch.setitem(tracker_process.LIBRARIES, "mlflow", "json")
    with pytest.raises(InvalidRequestError, match="MLFLOW_TRACKING_URI"):
        check_trackers(["mlflow"])
    env = {"FT_FILE_PATH": str(tmp_path / "home")}
    for words in (
        ["run", "--benchmark", "wordproblems", "--base-model", "tiny", "--track", "wandb"],
        ["resume", "--track", "wandb"],
    ):
        result = CliRunner().invoke(cli, words, env=env)
        assert result.exit_code == 2 and result.stderr.count("\n") == 1, result.output
        assert "pip install 'tuneloop[wandb]'" in result.stderr and not (tmp_path / "home").exists()


def test_a_run_of_another_home_is_not_sent(run: RunFolder, noted: Noted, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("a key of this machine")
    run.experiment(1).script.unlink()
    run.experiment(1).script.symlink_to(tmp_path / "key")
    run.signature.unlink()
    with pytest.raises(InvalidRequestError, match="not made by this home"):
        list(track(run, "wandb"))
    assert noted.sent == [] and not run.trackers.exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["r1"], "no tracker is named"),
        (["r1", "--to", "aim"], "'aim' is not one of"),
        (["r2", "--to", "wandb"], "no run 'r2'"),
    ],
)
def test_wrong_requests_are_one_line(run: RunFolder, words: list[str], told: str) -> None:
    result = CliRunner().invoke(cli, ["track", *words], env={"FT_FILE_PATH": str(run.root.parents[1])})
    assert result.exit_code == 2 and told in result.stderr and result.stderr.count("\n") == 1


def test_a_run_feeds_its_trackers_in_another_process_and_goes_on_without(
    run: RunFolder, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[TrackerSender] = []

    def sender(names: tuple[str, ...]) -> TrackerSender:
        made[:] = made or [TrackerSender(names)]
        return made[0]

    monkeypatch.setattr(tracker_process, "_sender", sender)
    settings = Settings(FT_FILE_PATH=run.root.parents[1], TUNELOOP_TRACKERS="wandb")
    with caplog.at_level(logging.WARNING, "tuneloop.trackers"):
        feed_trackers(run, settings, NodeFinished(node="train", seconds=1))
        assert not made
        for number in (1, 2):
            feed_trackers(run, settings, ExperimentFinished(experiment=number, outcome="failed", statement="idea"))
        made[0].close(60)
    (line,) = caplog.messages
    assert "the run goes on without: tuneloop: tracker wandb" in line


# The real libraries, in a folder beside this environment's packages.

READ = {
    "mlflow": """
from mlflow import MlflowClient
c = MlflowClient()
found = c.search_runs([c.get_experiment_by_name("tuneloop").experiment_id])
named = {r.data.tags["mlflow.runName"]: r for r in found}
first, whole = named["r1 experiment 1"], named["r1"]
told = {
    "names": sorted(r.data.tags["mlflow.runName"] for r in found),
    "nested": first.data.tags["mlflow.parentRunId"] == whole.info.run_id,
    "parameters": first.data.params, "outcome": first.data.tags["outcome"],
    "validation": first.data.metrics["validation"], "base": whole.data.metrics["base_validation"],
    "loss": [m.value for m in c.get_metric_history(first.info.run_id, "loss")],
    "files": sorted(f.path for f in c.list_artifacts(first.info.run_id)),
    "test": whole.data.metrics.get("best_test"),
}
""",
    "tensorboard": """
from tensorboardX.proto.event_pb2 import Event
import glob, struct
def events(folder):
    for path in sorted(glob.glob(f"{run}/trackers/tensorboard/{folder}/events*")):
        data = open(path, "rb").read()
        while data:
            (size,) = struct.unpack("<Q", data[:8])
            yield Event.FromString(data[12 : 12 + size])
            data = data[16 + size :]
def values(folder, tag):
    return [v.simple_value for e in events(folder) for v in e.summary.value if v.tag == tag]
told = {
    "names": sorted({p.split("/")[-2] for p in glob.glob(f"{run}/trackers/tensorboard/*/events*")}),
    "validation": values("experiment-001", "validation")[0], "base": values("run", "base_validation")[0],
    "loss": values("experiment-001", "loss"), "test": (values("run", "best_test") or [None])[-1],
}
""",
    "wandb": """
import glob, json, struct
from wandb.proto import wandb_internal_pb2 as pb
def records(path):  # blocks of 32 KiB, in them records in parts: checksum, length, whole or first, middle, last
    data, at, parts = open(path, "rb").read(), 7, b""
    while at + 7 < len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
        size, kind = struct.unpack("<HB", data[at + 4 : at + 7])
        parts += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):
            yield pb.Record.FromString(parts)
            parts = b""
losses, names, summary = [], set(), {}
for path in sorted(glob.glob(f"{run}/trackers/wandb/offline-run-*/*.wandb")):
    name = None
    for record in records(path):
        if record.HasField("run"):
            name = record.run.display_name; names.add(name)
        for item in record.history.item:
            if name == "r1 experiment 1" and (item.key or item.nested_key[0]) == "loss":
                losses.append(json.loads(item.value_json))
        for item in record.summary.update:
            summary.setdefault(name, {})[item.key or item.nested_key[0]] = json.loads(item.value_json)
told = {
    "names": sorted(names), "loss": losses, "validation": summary["r1 experiment 1"]["validation"],
    "base": summary["r1"]["base_validation"], "test": summary["r1"].get("best_test"),
}
""",
    "trackio": """
import trackio
from trackio.sqlite_storage import SQLiteStorage
found = {r.name.rsplit(" ", 1)[0]: r for r in trackio.Api().runs("tuneloop")}
def logs(name):
    return SQLiteStorage.get_logs("tuneloop", found[name].name)
def values(name, key):
    return [row[key] for row in logs(name) if key in row]
told = {
    "names": sorted(found), "loss": values("r1 experiment 1", "loss"), "validation": values("r1 experiment 1", "validation")[-1],
    "base": values("r1", "base_validation")[-1], "test": (values("r1", "best_test") or [None])[-1],
}
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TRACKERS)
def test_the_real_library_takes_everything_once(name: str, run: RunFolder, clients: Path, tmp_path: Path) -> None:
    env = {
        **os.environ,
        "FT_FILE_PATH": str(run.root.parents[1]),
        "MLFLOW_TRACKING_URI": f"file://{tmp_path}/mlruns",
        "MLFLOW_ALLOW_FILE_STORE": "true",
        "WANDB_MODE": "offline",
        "TRACKIO_DIR": str(tmp_path / "trackio"),
        "OPENAI_API_KEY": "a-secret-of-ours",
        "HOME": str(tmp_path),
    }

    def told() -> dict[str, Any]:
        return read_back(READ[name], clients, run, env)

    assert "2 experiments of run r1 sent" in sent(name, clients, env).stdout
    found = told()
    assert found.pop("names") == (
        ["experiment-001", "experiment-002", "run"]
        if name == "tensorboard"
        else ["r1", "r1 experiment 1", "r1 experiment 2"]
    )
    assert (found["loss"], found["validation"], found["base"], found["test"]) == ([2.0, 1.0], 51, 10, None)
    if name == "mlflow":
        assert found["nested"] and found["files"] == ["process_data.py", "train.yaml"]
        assert found["parameters"]["learning_rate"] == "0.0001" and found["outcome"] == "not promoted"
    (run.trackers / f"{name}.json").write_text("[2]")  # as after a kill before the proof was written
    finish(run)
    assert sent(name, clients, env).returncode == 0
    again = told()
    if name != "wandb":  # its files are a log, and its server takes each step of a run once
        assert again["loss"] == [2.0, 1.0] and len(again["names"]) == 3
    assert again["test"] == 71
    kept = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file() and clients not in file.parents]
    assert not any(b"a-secret-of-ours" in data for data in kept)
