"""critique: code promotes, the critic explains; `experiment.json` is written last, then disk is freed."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

from tuneloop.agents.critic import CRITIC
from tuneloop.core.brief import Brief
from tuneloop.core.errors import RecipeError
from tuneloop.core.experiment import Critique, Experiment, Failure, Feedback, Hypothesis, Training
from tuneloop.core.files import digest, json_text, read_bytes, read_field, read_model, write_json
from tuneloop.core.layout import ExperimentFolder
from tuneloop.graph.agent_calls.brief import build_brief, score_failures
from tuneloop.graph.agent_calls.run_agent import run_agent
from tuneloop.graph.context import Context
from tuneloop.graph.lifecycle.event_backfill import experiment_finished
from tuneloop.graph.outcomes.promotion import decide_candidate, guard_specs
from tuneloop.graph.outcomes.stopping import next_node
from tuneloop.graph.steering.compliance import complete_uses
from tuneloop.tools.housekeeping.pruning import RECIPES, prune_run
from tuneloop.tools.report.turns import node_turns
from tuneloop.tools.runs.evidence import record_evidence
from tuneloop.tools.runs.journal import (
    experiment_score,
    load_journal,
    other_scores,
    planned_from,
    whole_scores,
)

# Of experiments side by side the next is closed as soon as one has its result, while that one still frees disk.
PRUNING = threading.Lock()
NOTHING_MEASURED = Critique(explanation="Nothing was evaluated: there is no score to explain.", lesson="")


def critique(ctx: Context) -> dict[str, Any]:
    """Close the experiment; go on, or finish when loops, time or luck are out."""
    if not ctx.folder.result.is_file():
        # An experiment is closed without a critic rather than left open.
        close_experiment(replace(ctx, interactive=False, all_results=True))
    complete_uses(ctx)
    free_disk(ctx, planned_from(ctx.run, load_journal(ctx.run), ctx.run_tools.spec.window))
    stage = "research" if ctx.slot else next_node(ctx)  # beside others it is not the last one that decides what follows
    return {"stage": stage, "attempt": 0, "failure": None}


def free_disk(ctx: Context, needed: frozenset[int] = frozenset()) -> None:
    """Prune what is over; the weights of the experiments `needed` stay."""
    again = RECIPES if ctx.run_tools.spec.seeds > 1 else 0
    # What is trained without evaluation is delivered, whatever is kept of experiments that lost.
    keep = ctx.settings.keep_models if ctx.run_tools.spec.evaluated else "all"
    with PRUNING:
        prune_run(ctx.run, load_journal(ctx.run), keep, again, needed)


def close_experiment(ctx: Context) -> None:
    """Judge, explain, write."""
    folder, failure = ctx.folder, final_failure(ctx)
    score = None if failure or not ctx.run_tools.spec.evaluated else experiment_score(ctx.run, ctx.state.experiment)
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
    critic = ask_critic(ctx, told) if failure or score else NOTHING_MEASURED
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
        seconds=round(own_seconds(ctx) if ctx.slot else max(0.0, ctx.state.spent - seconds_before(ctx)), 1),
    )
    made = experiment.model_dump(mode="json")
    record_evidence(ctx.run, folder.root, experiment=json_text(made))
    write_json(folder.result, made)
    ctx.emit(experiment_finished(experiment))


def final_failure(ctx: Context) -> Failure | None:
    """Why the experiment has failed; None where it was measured, or where nothing is and no failure ended it."""
    found = ctx.state.failure
    if found is None:
        return None
    repaired = found.leads != "critique"
    # A score from before an evaluation that failed for good is one that was to be measured again.
    measured = ctx.folder.scores.is_file() and (repaired or found.node != "evaluate")
    if measured or (repaired and not ctx.run_tools.spec.evaluated):
        return None
    return Failure(node=found.node, culprit=found.culprit, text=found.text)


def ask_critic(ctx: Context, told: Brief) -> Critique:
    """The explanation, or the honest note that there is none."""
    try:
        return run_agent(ctx, CRITIC, told)
    except RecipeError as e:
        return Critique(explanation=f"The critic gave no usable answer: {e}", lesson="", blame="none")


def read_hypothesis(folder: ExperimentFolder) -> Hypothesis:
    """The idea, or the honest note that there was none."""
    if folder.hypothesis.is_file():
        return read_model(folder.hypothesis, Hypothesis)
    return Hypothesis(statement="no idea was found", reason="the researcher failed", disproof="-", aspect="none")


def own_seconds(ctx: Context) -> float:
    """Seconds that the nodes of this experiment took, while others worked."""
    return sum(part.seconds + part.lost for part in node_turns(ctx.run.events) if part.experiment == ctx.number)


def seconds_before(ctx: Context) -> float:
    """Seconds that earlier experiments and `prepare` took."""
    earlier = sum(e.seconds for e in load_journal(ctx.run).experiments)
    prepared = read_field(ctx.run.baseline / "spent.json", "seconds", float)
    return float(earlier + prepared)


def _digest(folder: ExperimentFolder, name: str) -> str:
    file = folder.root / name
    return digest(read_bytes(file)) if file.is_file() else ""
