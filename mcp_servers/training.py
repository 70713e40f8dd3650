"""MCP server `training`: launch micro-runs and trainings by name, watch them, read their curves."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastmcp import FastMCP
from pydantic import Field

from tuneloop.core.errors import ToolError
from tuneloop.core.files import read_json
from tuneloop.core.layout import ExperimentFolder
from tuneloop.mcp_servers.scope import Scope
from tuneloop.mcp_servers.server import make_server
from tuneloop.tools.training import log_points, seconds_per_step, start_rehearsal, start_training
from tuneloop.tools.workbench import job_report

Experiment = Annotated[int, Field(ge=1, description="experiment number")]
Kind = Annotated[Literal["rehearse", "train"], Field(description="rehearse: a few steps; train: the full run")]
POINTS = 60
INSTRUCTIONS = "Trainings of a run. Launching returns at once; launching again what runs or is over changes nothing."


class TrainingTools:
    """Functions of the server, one run in the hand."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def launch(self, experiment: Experiment, kind: Kind) -> dict[str, Any]:
        """Start an experiment's micro-run or full training; returns at once, poll training_status."""
        bench = self.scope.bench()
        folder = self._with_data(experiment)
        start = start_rehearsal if kind == "rehearse" else start_training
        return {"experiment": experiment, "kind": kind, "job": start(bench, folder)}

    def status(self, experiment: Experiment, kind: Kind) -> dict[str, Any]:
        """State of a training: absent, running, over or lost; steps done and loss."""
        bench = self.scope.bench()
        folder = bench.experiment(experiment)
        status, _ = bench.status(folder.jobs, kind)
        points = log_points(self._out(folder, kind))
        last = points[-1] if points else {}
        return job_report(
            status,
            done=last.get("current_steps", 0),
            total=last.get("total_steps", 0),
            loss=last.get("loss"),
            unit="steps",
        )

    def stop(self, experiment: Experiment, kind: Kind) -> dict[str, Any]:
        """End a training; its last checkpoint stays."""
        bench = self.scope.bench()
        folder = bench.experiment(experiment)
        bench.stop(folder.jobs, kind)
        return self.status(experiment, kind)

    def loss_curve(self, experiment: Experiment) -> dict[str, Any]:
        """Training loss by step, thinned to at most 60 points, with evaluation losses where there are any."""
        folder = self.scope.bench().experiment(experiment)
        points = [p for p in log_points(folder.model) if "loss" in p or "eval_loss" in p]
        thin = points[:: max(1, len(points) // POINTS)]
        rows = [{"step": p["current_steps"], **{k: p[k] for k in ("loss", "eval_loss", "lr") if k in p}} for p in thin]
        return {"experiment": experiment, "points": rows}

    def forecast(self, experiment: Experiment) -> dict[str, Any]:
        """Seconds per step and for the whole run, from the micro-run."""
        folder = self.scope.bench().experiment(experiment)
        file = folder.root / "forecast.json"
        if file.is_file():
            found: dict[str, Any] = read_json(file)
            return found
        return {"seconds_per_step": seconds_per_step(folder.work / "rehearsal_model")}

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
