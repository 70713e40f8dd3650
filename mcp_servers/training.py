"""MCP server `training`: launch micro-runs and trainings by name, watch them, read their curves."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from tuneloop.core.errors import ToolError
from tuneloop.core.files import read_json
from tuneloop.core.layout import ExperimentFolder
from tuneloop.mcp_servers.arguments import Experiment
from tuneloop.mcp_servers.scope import Scope
from tuneloop.mcp_servers.server import make_server
from tuneloop.tools.trained import log_points
from tuneloop.tools.training import start_rehearsal, start_training, stop_training
from tuneloop.tools.watch import findings
from tuneloop.tools.watching import number, read_pulse, shown, signs
from tuneloop.tools.workbench import job_report

if TYPE_CHECKING:  # nodes call these tools without a server, and fastmcp is slow to import
    from fastmcp import FastMCP

Kind = Annotated[Literal["rehearse", "train"], Field(description="rehearse: a few steps; train: the full run")]
Left = Annotated[
    float | None,
    Field(allow_inf_nan=False, description="seconds until it has to be over and evaluated; null: no limit"),
]
Save = Annotated[bool, Field(description="leave a checkpoint where it stops; false: what is saved already is better")]
POINTS = 60
INSTRUCTIONS = "Trainings of a run. Launching returns at once; launching again what runs or is over changes nothing."


class TrainingTools:
    """Functions of the server, one run in the hand."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def launch(self, experiment: Experiment, kind: Kind) -> dict[str, Any]:
        """Start (launch) the micro-run (rehearsal) or the full training of an experiment; returns at once, poll training_status."""
        bench = self.scope.bench()
        folder = self._with_data(experiment)
        start = start_rehearsal if kind == "rehearse" else start_training
        return {"experiment": experiment, "kind": kind, "job": start(bench, folder)}

    def status(self, experiment: Experiment, kind: Kind, seconds_left: Left = None) -> dict[str, Any]:
        """How far an experiment's training is: at which step, its loss, what its watch finds; absent, running, over, lost.

        A finding of level `stop` (NaN, divergence, stall, a full disk, a deadline) is one that waiting cannot mend.
        """
        bench = self.scope.bench()
        folder = bench.experiment(experiment)
        status, _ = bench.status(folder.jobs, kind)
        out = self._out(folder, kind)
        pulse, points = read_pulse(out), log_points(out)
        last = points[-1] if points else {}
        watched: dict[str, Any] = {}
        if kind == "train" and status.state == "running":
            now = signs(bench, folder, seconds_left)
            watched = {"points": shown(now.points), "findings": [asdict(f) for f in findings(now)]}
        return job_report(
            status,
            done=max(last.get("current_steps", 0), pulse.get("step", 0)),
            total=pulse.get("of") or last.get("total_steps", 0),
            loss=number(last.get("loss")),
            unit="steps",
            **watched,
        )

    def stop(self, experiment: Experiment, kind: Kind, save: Save = True) -> dict[str, Any]:
        """Stop (abort) an experiment's training after the step at hand, with a checkpoint; launched again it goes on there."""
        bench = self.scope.bench()
        stop_training(bench, bench.experiment(experiment), kind, save=save)
        return self.status(experiment, kind)

    def loss_curve(self, experiment: Experiment) -> dict[str, Any]:
        """The loss curve of an experiment: training loss by step, at most 60 points, with evaluation losses where there are any."""
        folder = self.scope.bench().experiment(experiment)
        points = [p for p in log_points(folder.model) if "loss" in p or "eval_loss" in p]
        thin = points[:: max(1, len(points) // POINTS)]
        rows = [
            {"step": p["current_steps"], **{k: number(p[k]) for k in ("loss", "eval_loss", "lr") if k in p}}
            for p in thin
        ]
        return {"experiment": experiment, "points": rows}

    def forecast(self, experiment: Experiment) -> dict[str, Any]:
        """How long the full training would take and what it needs, by its micro-run: seconds, CPU, peak memory, disk, steps."""
        file = self.scope.bench().experiment(experiment).forecast
        if not file.is_file():
            raise ToolError(f"experiment {experiment} was not rehearsed yet: there is no forecast")
        found: dict[str, Any] = read_json(file)
        return found

    def _with_data(self, experiment: int) -> ExperimentFolder:
        folder = self.scope.bench().experiment(experiment)
        for wanted in (folder.data / "report.json", folder.config):
            if not wanted.is_file():
                raise ToolError(f"experiment {experiment} has no {wanted.name} yet: build its data and config first")
        return folder

    def _out(self, folder: ExperimentFolder, kind: str) -> Any:
        return folder.model if kind == "train" else folder.work / "rehearsal_model"


def build_server(scope: Scope) -> FastMCP:
    """The server for one scope."""
    t = TrainingTools(scope)
    return make_server("training", INSTRUCTIONS, (t.launch, t.status, t.stop, t.loss_curve, t.forecast))
