"""critique: code promotes, the critic explains; `experiment.json` is written last, then disk is freed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tuneloop.agents.critic import CRITIC
from tuneloop.core.errors import RecipeError
from tuneloop.core.experiment import Critique, Experiment, Failure, Feedback, Hypothesis, Training
from tuneloop.core.files import digest, json_text, read_bytes, read_field, read_model, write_json
from tuneloop.core.layout import ExperimentFolder
from tuneloop.graph.agent_calls.brief import build_brief, score_failures
from tuneloop.graph.agent_calls.run_agent import run_agent
from tuneloop.graph.context import Context
from tuneloop.graph.lifecycle.event_backfill import experiment_finished
from tuneloop.graph.nodes.extra_seeds import RECIPES
from tuneloop.graph.outcomes.promotion import decide_candidate, guard_specs
from tuneloop.graph.outcomes.stopping import next_node
from tuneloop.graph.steering.compliance import complete_uses
from tuneloop.tools.housekeeping.pruning import prune_run
from tuneloop.tools.runs.evidence import record_evidence
from tuneloop.tools.runs.journal import experiment_score, load_journal, other_scores, whole_scores


def critique(ctx: Context) -> dict[str, Any]:
    """Close the experiment; go on, or finish when loops, time or luck are out."""
    if not ctx.folder.result.is_file():
        close_experiment(
            replace(ctx, interactive=False)
        )  # an experiment is closed without a critic rather than left open
    complete_uses(ctx)
    again = RECIPES if ctx.run_tools.spec.seeds > 1 else 0
    prune_run(ctx.run, load_journal(ctx.run), ctx.settings.keep_models, again)
    return {"stage": next_node(ctx), "attempt": 0, "failure": None}


def close_experiment(ctx: Context) -> None:
    """Judge, explain, write."""
    folder, node_failure = ctx.folder, ctx.state.failure
    failed = node_failure is not None and not folder.scores.is_file()
    failure = (
        Failure(node=node_failure.node, culprit=node_failure.culprit, text=node_failure.text)
        if failed and node_failure
        else None
    )
    score = None if failed else experiment_score(ctx.run, ctx.state.experiment)
    training = read_model(folder.training, Training) if folder.training.is_file() else None
    decision = (
        decide_candidate(ctx, score, whole_scores(folder.scores, [g.benchmark for g in guard_specs(ctx)]))
        if score
        else None
    )
    text = f"{failure.node}: {failure.text}" if failure else ""
    names = [placed.benchmark.name for placed in ctx.run_tools.setup.also]
    also = other_scores(folder.scores, names) if score else {}
    failures = (score_failures(ctx, ctx.state.experiment, score),) if score else ()
    told = build_brief(
        ctx, failure=text, score=score, also=also, decision=decision, training=training, failures=failures
    )
    try:
        critic = run_agent(ctx, CRITIC, told)
    except RecipeError as e:
        critic = Critique(explanation=f"The critic gave no usable answer: {e}", lesson="", blame="none")
    feedback = Feedback(
        promoted=bool(decision and decision.promoted),
        comparison=decision and decision.comparison,
        guards=decision.guards if decision else (),
        reasons=decision.reasons if decision else (),
        critique=critic,
    )
    experiment = Experiment(
        number=ctx.state.experiment,
        hypothesis=read_hypothesis(folder),
        script=_digest(folder, "process_data.py"),
        config=_digest(folder, "train.yaml"),
        training=training,
        score=score and score.bare,
        also=also,
        failure=failure,
        feedback=feedback,
        repairs=ctx.state.attempt,
        seconds=round(max(0.0, ctx.state.spent - seconds_before(ctx)), 1),
    )
    made = experiment.model_dump(mode="json")
    record_evidence(ctx.run, folder.root, experiment=json_text(made))
    write_json(folder.result, made)
    ctx.emit(experiment_finished(experiment))


def read_hypothesis(folder: ExperimentFolder) -> Hypothesis:
    """The idea, or the honest note that there was none."""
    if folder.hypothesis.is_file():
        return read_model(folder.hypothesis, Hypothesis)
    return Hypothesis(statement="no idea was found", reason="the researcher failed", disproof="-", aspect="none")


def seconds_before(ctx: Context) -> float:
    """Seconds that earlier experiments and `prepare` took."""
    earlier = sum(e.seconds for e in load_journal(ctx.run).experiments)
    prepared = read_field(ctx.run.baseline / "spent.json", "seconds", float)
    return float(earlier + prepared)


def _digest(folder: ExperimentFolder, name: str) -> str:
    file = folder.root / name
    return digest(read_bytes(file)) if file.is_file() else ""
