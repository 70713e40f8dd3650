"""critique: code promotes, the critic explains; `experiment.json` is written last, then disk is freed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tuneloop.agents.critic import CRITIC
from tuneloop.core.errors import RecipeError
from tuneloop.core.experiment import Critique, Experiment, Failure, Feedback, Hypothesis, Training
from tuneloop.core.files import digest, read_json, write_json
from tuneloop.core.layout import ExperimentFolder
from tuneloop.graph.asking import ask
from tuneloop.graph.brief import brief
from tuneloop.graph.context import Context
from tuneloop.graph.evidence import of_score
from tuneloop.graph.onward import after
from tuneloop.graph.retold import ended
from tuneloop.graph.steering.compliance import complete_uses
from tuneloop.graph.verdict import guards, verdict
from tuneloop.tools.pruning import prune
from tuneloop.tools.runs.journal import load_journal, other_scores, scores, whole_scores


def critique(ctx: Context) -> dict[str, Any]:
    """Close the experiment; go on, or finish when loops, time or luck are out."""
    if not ctx.folder.result.is_file():
        close(replace(ctx, attended=False))  # an experiment is closed without a critic rather than left open
    complete_uses(ctx)
    prune(ctx.run, load_journal(ctx.run), ctx.settings.keep_models)
    return {"stage": after(ctx), "attempt": 0, "trouble": None}


def close(ctx: Context) -> None:
    """Judge, explain, write."""
    folder, trouble = ctx.folder, ctx.state.trouble
    failed = trouble is not None and not folder.scores.is_file()
    failure = Failure(node=trouble.node, culprit=trouble.culprit, text=trouble.text) if failed and trouble else None
    score = None if failed else scores(ctx.run, ctx.state.experiment)
    training = Training.model_validate(read_json(folder.training)) if folder.training.is_file() else None
    decision = verdict(ctx, score, whole_scores(folder.scores, [g.benchmark for g in guards(ctx)])) if score else None
    text = f"{failure.node}: {failure.text}" if failure else ""
    names = [placed.benchmark.name for placed in ctx.bench.setup.also]
    also = other_scores(folder.scores, names) if score else {}
    failures = (of_score(ctx, ctx.state.experiment, score),) if score else ()
    told = brief(ctx, failure=text, score=score, also=also, decision=decision, training=training, failures=failures)
    try:
        critic = ask(ctx, CRITIC, told)
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
        hypothesis=hypothesis(folder),
        script=_digest(folder, "process_data.py"),
        config=_digest(folder, "train.yaml"),
        training=training,
        score=score and score.bare,
        also=also,
        failure=failure,
        feedback=feedback,
        repairs=ctx.state.attempt,
        seconds=round(max(0.0, ctx.state.spent - spent_before(ctx)), 1),
    )
    write_json(folder.result, experiment.model_dump(mode="json"))
    ctx.emit(ended(experiment))


def hypothesis(folder: ExperimentFolder) -> Hypothesis:
    """The idea, or the honest note that there was none."""
    if folder.hypothesis.is_file():
        return Hypothesis.model_validate(read_json(folder.hypothesis))
    return Hypothesis(statement="no idea was found", reason="the researcher failed", disproof="-", aspect="none")


def spent_before(ctx: Context) -> float:
    """Seconds that earlier experiments and `prepare` took."""
    earlier = sum(e.seconds for e in load_journal(ctx.run).experiments)
    prepared = read_json(ctx.run.baseline / "spent.json")["seconds"]
    return float(earlier + prepared)


def _digest(folder: ExperimentFolder, name: str) -> str:
    file = folder.root / name
    return digest(file.read_bytes()) if file.is_file() else ""
