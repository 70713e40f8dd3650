"""Feed experiment trackers that the owner names: MLflow, TensorBoard, Weights & Biases, trackio.

Their libraries are imported in the process of `tuneloop track` alone. They read their own variables (`MLFLOW_…`, `WANDB_…`,
`TRACKIO_…`); of ours they see none that is secret.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.files import read_model, write_json
from tuneloop.core.formatting import printable
from tuneloop.core.layout import RunFolder
from tuneloop.core.locks import exclusive
from tuneloop.core.setting_values import TrackerName
from tuneloop.core.settings import Settings
from tuneloop.graph.telemetry.tracked import TrackedItem, item_key, tracked_items
from tuneloop.tools.runs.signature import check_signed

PROJECT = "tuneloop"
# Secrets among settings that are plain text.
PRIVATE = frozenset({"TUNELOOP_MCP_TOKEN", "TUNELOOP_CHECKPOINT_URL", "TUNELOOP_TEAM_URL"})
MOST = 100  # MLflow takes no more parameters in one request, and 1,000 numbers


class Tracker(Protocol):
    """Where items go. Errors of its library come through as they are."""

    def send(self, item: TrackedItem) -> None:
        """An experiment replaces what an interrupted sending left of it; what is said of a run is added."""


class MlflowTracker:
    """A run and, nested in it, its experiments. Items are found again by the tag `tuneloop.key`."""

    def __init__(self, run: RunFolder) -> None:
        from mlflow import MlflowClient  # type: ignore[import-not-found, unused-ignore]

        self.client, self.run = MlflowClient(), run
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or PROJECT
        found = self.client.get_experiment_by_name(name)
        self.experiment: str = found.experiment_id if found else self.client.create_experiment(name)

    def send(self, item: TrackedItem) -> None:
        """Parameters and numbers in as many requests as its limits need, files as artifacts."""
        entity = self._run(item)
        now = int(time.time() * 1000)
        from mlflow.entities import Metric, Param, RunTag  # type: ignore[import-not-found, unused-ignore]

        points = [(name, value, 0) for name, value in item.metrics.items()]
        points += [(name, value, step) for step, values in item.curve for name, value in values.items()]
        for some in in_parts([Metric(name, value, now, step) for name, value, step in points]):
            self.client.log_batch(entity, metrics=some)
        for some in in_parts([Param(name, str(value)[:6000]) for name, value in item.parameters.items()]):
            self.client.log_batch(entity, params=some)
        self.client.log_batch(entity, tags=[RunTag(name, text[:5000]) for name, text in item.tags.items()])
        for file in item.files:
            self.client.log_artifact(entity, str(file))
        self.client.set_terminated(entity, "FAILED" if item.tags.get("outcome") == "failed" else "FINISHED")

    def _run(self, item: TrackedItem) -> str:
        """The id of the item's run there."""
        old = self._find(item.key)
        if old and item.number:
            self.client.delete_run(old)
        elif old:
            return old
        tags = {"tuneloop.key": item.key, "mlflow.runName": item.name, "mlflow.source.name": PROJECT}
        if item.number:
            key = item_key(self.run, 0)
            tags["mlflow.parentRunId"] = self._find(key) or self._run(TrackedItem(key, item.run, 0))
        created: str = self.client.create_run(self.experiment, tags=tags).info.run_id
        return created

    def _find(self, key: str) -> str | None:
        found = self.client.search_runs([self.experiment], f"tags.`tuneloop.key` = '{key}'", max_results=1)
        return found[0].info.run_id if found else None


class TensorboardTracker:
    """Event files in the run's folder, so that `tensorboard --logdir FT_FILE_PATH/runs` compares runs."""

    def __init__(self, run: RunFolder) -> None:
        import tensorboardX  # type: ignore[import-not-found, unused-ignore]

        self.open, self.folder = tensorboardX.SummaryWriter, run.trackers / "tensorboard"

    def send(self, item: TrackedItem) -> None:
        """One folder each; parameters for its HPARAMS page."""
        folder = self.folder / (f"experiment-{item.number:03d}" if item.number else "run")
        if item.number:
            shutil.rmtree(folder, ignore_errors=True)
        with self.open(str(folder)) as writer:
            for name, value in item.metrics.items():
                writer.add_scalar(name, value, item.number)
            for step, values in item.curve:
                for name, value in values.items():
                    writer.add_scalar(name, value, step)
            for name, text in item.tags.items():
                writer.add_text(name, text)
            if item.number:
                writer.add_hparams(dict(item.parameters), dict(item.metrics), name="hparams")


class WandbTracker:
    """A run and its experiments as runs of one group; without a key set `WANDB_MODE=offline`, files lie in the run's folder."""

    def __init__(self, run: RunFolder) -> None:
        import wandb  # type: ignore[import-not-found, unused-ignore]

        self.wandb, self.folder = wandb, run.trackers
        self.settings = wandb.Settings(
            console="off", silent=True, disable_git=True, disable_code=True, disable_job_creation=True,
            x_disable_meta=True, x_disable_stats=True, x_disable_machine_info=True, init_timeout=60,
        )  # fmt: skip

    def send(self, item: TrackedItem) -> None:
        """Ids are the items' keys: an item that is sent again goes to the same run."""
        with self.wandb.init(
            project=os.environ.get("WANDB_PROJECT") or PROJECT,
            id=item.key,
            name=item.name,
            group=item.run,
            job_type="experiment" if item.number else "run",
            config=dict(item.parameters),
            dir=str(self.folder),
            resume="allow",
            settings=self.settings,
        ) as there:
            there.define_metric("*", step_metric="step" if item.number else "experiment")
            for step, values in item.curve:
                there.log({"step" if item.number else "experiment": step, **values})
            there.summary.update({**item.metrics, **item.tags})
            if item.files:
                artifact = self.wandb.Artifact(f"{item.run}-{item.number}", type="recipe" if item.number else "report")
                for file in item.files:
                    artifact.add_file(str(file))
                there.log_artifact(artifact)


class TrackioTracker:
    """A run and its experiments as runs of one group; local, or where `TRACKIO_SPACE_ID` or `TRACKIO_SERVER_URL` says."""

    def __init__(self, run: RunFolder) -> None:  # noqa: ARG002 - as all are made
        import trackio  # type: ignore[import-not-found, unused-ignore]

        self.trackio = trackio

    def send(self, item: TrackedItem) -> None:
        """It keeps no files; numbers of the whole are logged behind the curve."""
        project = os.environ.get("TRACKIO_PROJECT") or PROJECT
        name = f"{item.name} {item.key[:8]}"
        if item.number:
            for old in self._runs(project):
                if old.name == name:
                    old.delete()
        config = {**item.parameters, **item.tags}
        self.trackio.init(project, name=name, group=item.run, config=config, resume="allow", embed=False)
        for step, values in item.curve:
            self.trackio.log(dict(values), step=step)
        if item.metrics:
            self.trackio.log(dict(item.metrics))
        self.trackio.finish()

    def _runs(self, project: str) -> list[Any]:
        try:
            return list(self.trackio.Api().runs(project))
        except ValueError:  # the project does not exist yet
            return []


TRACKERS: Mapping[TrackerName, Callable[[RunFolder], Tracker]] = {
    "mlflow": MlflowTracker,
    "tensorboard": TensorboardTracker,
    "wandb": WandbTracker,
    "trackio": TrackioTracker,
}


def track(run: RunFolder, name: TrackerName) -> Iterator[TrackedItem]:
    """Send what tracker `name` does not have yet; gives each item when it was sent.

    Raises InfrastructureError in one line when the tracker does not take it: what was sent stays sent; InvalidRequestError
    for a run of another home, whose links could lead to any file of this machine.
    """
    check_signed(run)
    hide_secrets(keep={"HF_TOKEN"} if name == "trackio" else set())
    with exclusive(run.trackers / f"{name}.lock"):
        record = run.trackers / f"{name}.json"
        sent = set(read_model(record, list[int])) if record.is_file() else set()
        try:
            tracker = TRACKERS[name](run)
            for item in tracked_items(run, sent):
                tracker.send(item)
                sent |= {item.number} - {0}
                write_json(record, sorted(sent))
                yield item
        except (InfrastructureError, InvalidRequestError):
            raise
        except Exception as e:  # noqa: BLE001 - every library has errors of its own, and none is ours
            said = printable(" ".join(str(e).split()), 300)
            raise InfrastructureError(f"tracker {name} did not take it: {type(e).__name__}: {said}") from None


def hide_secrets(keep: set[str]) -> None:
    """Take our own secret variables out of this process: no library needs them."""
    secret = {str(f.alias) for f in Settings.model_fields.values() if "SecretStr" in str(f.annotation)}
    for name in [name for name in os.environ if name.upper() in (secret | PRIVATE) - keep]:
        del os.environ[name]
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # else a server that is away takes minutes
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")


def in_parts(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """At most `MOST` at a time."""
    for start in range(0, len(items), MOST):
        yield items[start : start + MOST]
