"""MCP server `training`: launch smoke runs and trainings by name, watch them, read their curves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastmcp import FastMCP
from pydantic import Field

from tuneloop.core.errors import ToolError
from tuneloop.core.files import read_model
from tuneloop.core.layout import ExperimentFolder
from tuneloop.core.protocols import Launched, TrainingKind, TrainingStatus
from tuneloop.mcp_servers.scope import Scope
from tuneloop.mcp_servers.server import Experiment, make_server
from tuneloop.tools.config.config_text import ConfigError
from tuneloop.tools.evaluation.standalone.run_tools import ignore_progress
from tuneloop.tools.training import methods
from tuneloop.tools.training.grpo import grpo_curve
from tuneloop.tools.training.metrics import finite_number, read_pulse, read_signs, recent_steps, thinned
from tuneloop.tools.training.result import log_points
from tuneloop.tools.training.throughput import forecast_by_throughput
from tuneloop.tools.training.tokens import experiment_tokens

Kind = Annotated[TrainingKind, Field(description="smoke_run: a few steps; train: the full run")]
Left = Annotated[
    float | None,
    Field(allow_inf_nan=False, description="seconds until it has to be over and evaluated; null: no limit"),
]
Save = Annotated[bool, Field(description="leave a checkpoint where it stops; false: what is saved already is better")]
Row = Annotated[int, Field(ge=0, description="which row of the built data, from 0")]
POINTS = 60
PIECES, PIECE = 12, 1000  # of a row, and characters of one
INSTRUCTIONS = "Trainings of a run. Launching returns at once; launching again what runs or is over changes nothing."


class TrainingTools:
    """Functions of the server, one run in the hand."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def launch(self, experiment: Experiment, kind: Kind) -> Launched:
        """Start (launch) the smoke run (smoke run) or the full training of an experiment; returns at once, poll training_status."""
        run_tools = self.scope.run_tools()
        folder = self._with_data(experiment)
        return Launched(experiment=experiment, job=methods.launch(run_tools, folder, kind))

    def status(self, experiment: Experiment, kind: Kind, seconds_left: Left = None) -> TrainingStatus:
        """How far an experiment's training is: at which step, its loss, what its watch finds; absent, running, over, lost.

        A finding of level `stop` (NaN, divergence, stall, a full disk, a deadline) is one that waiting cannot mend.
        """
        run_tools = self.scope.run_tools()
        folder = run_tools.experiment(experiment)
        status, _ = run_tools.status(folder.jobs, kind)
        methods.tend(run_tools, folder, kind)
        out = self._out(folder, kind)
        pulse, points = read_pulse(out), log_points(out)
        last = points[-1] if points else {}
        reward = methods.newest_reward(folder) if kind == "train" else None
        watched: dict[str, Any] = {}
        if kind == "train" and status.state == "running":
            now = read_signs(run_tools, folder, seconds_left)
            watched = {"points": recent_steps(now.points), "findings": methods.findings(folder, now)}
        return TrainingStatus.of(
            status,
            done=max(last.get("current_steps", 0), pulse.get("step", 0)),
            total=pulse.get("of") or last.get("total_steps", 0),
            loss=finite_number(last.get("loss")),
            note="" if reward is None else f"reward {reward:.2f}",
            **watched,
        )

    def stop(self, experiment: Experiment, kind: Kind, save: Save = True) -> TrainingStatus:
        """Stop (abort) an experiment's training after the step at hand, with a checkpoint; launched again it goes on there."""
        run_tools = self.scope.run_tools()
        methods.stop(run_tools, run_tools.open_experiment(experiment), kind, save=save)
        return self.status(experiment, kind)

    def loss_curve(self, experiment: Experiment) -> dict[str, Any]:
        """The loss curve of an experiment: training loss by step, at most 60 points, with evaluation losses where there are any.

        Of a GRPO training rewards (share that replies earned), lengths in tokens and KL stand in place of losses.
        """
        folder = self.scope.run_tools().experiment(experiment)
        if methods.by_grpo(folder):
            return {"experiment": experiment, "points": thinned(grpo_curve(folder), POINTS)}
        points = log_points(folder.model)
        evaluated = thinned([p for p in points if "eval_loss" in p], POINTS // 3)
        losses = thinned([p for p in points if "loss" in p and "eval_loss" not in p], POINTS - len(evaluated))
        rows = [
            {"step": p["current_steps"], **{k: finite_number(p[k]) for k in ("loss", "eval_loss", "lr") if k in p}}
            for p in sorted((*losses, *evaluated), key=lambda p: p["current_steps"])
        ]
        return {"experiment": experiment, "points": rows}

    def forecast(self, experiment: Experiment) -> dict[str, Any]:
        """How long the full training would take and what it needs: seconds, CPU, peak memory, disk, steps.

        `source`: its smoke run, or before that, where there is data and config, the speed measured before the first experiment.
        """
        run_tools = self.scope.run_tools()
        folder = run_tools.experiment(experiment)
        if folder.forecast.is_file():
            return {**read_model(folder.forecast, dict[str, Any]), "source": "smoke run"}
        ready = folder.config.is_file() and (folder.data / "report.json").is_file()
        try:
            found = forecast_by_throughput(run_tools, folder) if ready else None
        except ConfigError as e:
            raise ToolError(str(e)) from e
        if found is None:
            raise ToolError(f"experiment {experiment} was not smoke_run yet: there is no forecast")
        shown = {"seconds", "memory", "steps", "epochs", "seconds_per_step", "overhead", "disk"}
        return {**found.model_dump(mode="json", include=shown), "source": "speed of the base model on this machine"}

    def show_tokens(self, experiment: Experiment, row: Row = 0) -> dict[str, Any]:
        """Which tokens of a training row are read and which carry loss, by the engine itself; masking and template made visible.

        `trained_prefix_is_evaluated_prompt` false: the training's template is not the one that the evaluation asks in.
        """
        folder = self._with_data(experiment)
        found = experiment_tokens(self.scope.run_tools(), folder, row, ignore_progress)
        pieces = [
            {"loss": loss, "count": len(tokens), "text": "".join(token.text for token in tokens)[:PIECE]}
            for loss, tokens in found.pieces[:PIECES]
        ]
        return {"experiment": experiment, "row": row, **found.counts, "pieces": pieces}

    def _with_data(self, experiment: int) -> ExperimentFolder:
        folder = self.scope.run_tools().open_experiment(experiment)
        for wanted in (folder.data / "report.json", folder.config):
            if not wanted.is_file():
                raise ToolError(f"experiment {experiment} has no {wanted.name} yet: build its data and config first")
        return folder

    def _out(self, folder: ExperimentFolder, kind: TrainingKind) -> Path:
        return folder.model if kind == "train" else folder.work / "smoke_run_model"


def build_server(scope: Scope) -> FastMCP:
    """The server for one scope."""
    t = TrainingTools(scope)
    return make_server("training", INSTRUCTIONS, (t.launch, t.status, t.stop, t.loss_curve, t.forecast, t.show_tokens))
