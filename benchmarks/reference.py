"""The reference experiment: 100 optimizer steps of 8 rows and 200 items, here and with the stock command lines."""

from __future__ import annotations

import os
from dataclasses import dataclass

from figures import figure
from ours import Ours, evaluation_batch, experiment, open_reference, reference, timed
from place import Place
from stock import StockEvaluation, StockTraining, evaluate, train

from tuneloop.core.files import digest_file
from tuneloop.core.layout import job_input_file
from tuneloop.graph.context import Context
from tuneloop.tools.benchmark_items.folder import select_validation

STEPS, ITEMS, PAIRS = 100, 200, 3
SMALL = (4, 8, 1)


@dataclass(frozen=True)
class Pair:
    """The same config, rows, items and batch on both sides, one after the other."""

    ours: Ours
    training: StockTraining
    evaluation: StockEvaluation
    differing: int

    @property
    def whole(self) -> tuple[float, float]:
        """Seconds of the experiment: ours, stock."""
        return self.ours.whole, self.training.spent.wall + self.evaluation.spent.wall

    @property
    def beyond(self) -> tuple[float, float]:
        """The same without optimizer steps and generation, each by the clock of the engine that did them."""
        ours, stock = self.whole
        return (
            ours - self.ours.steps - self.ours.generation,
            stock - self.training.steps - self.evaluation.generation,
        )


def pairs(place: Place) -> list[Pair]:
    """Our engines are warmed as a run warms them, and by a small experiment whose cost is noted; then sides take turns."""
    steps, count, repeats = SMALL if place.small else (STEPS, ITEMS, PAIRS)
    ctx = open_reference(place, count)
    with ctx.run_tools.warm_engines():
        return turns(place, ctx, steps, count, repeats)


def turns(place: Place, ctx: Context, steps: int, count: int, repeats: int) -> list[Pair]:
    """The pairs, workers of this run being there."""
    place.say("reference: first experiment, engines cold")
    first = timed(experiment(ctx, 1, 4))
    place.note("first experiment of 4 steps, engines cold", {"train": first.train, "evaluate": first.evaluate})
    found = []
    for number in range(2, repeats + 2):
        place.say(f"reference: {steps} steps and {count} items, pair {number - 1} of {repeats}, ours")
        mine = reference(experiment(ctx, number, steps))
        place.say(f"reference: pair {number - 1} of {repeats}, stock command lines")
        training = train(
            place, job_input_file(mine.folder.work, "train") / "config.yaml", place.root / "stock" / "train"
        )
        run_tools, asked = ctx.run_tools.benchmark, select_validation(ctx.run_tools.benchmark, count).every
        batch, work = evaluation_batch(mine.folder), place.root / "stock" / "evaluate"
        evaluation = evaluate(place, training.model, run_tools.benchmark, asked, batch, work)
        verdicts = [item.correct for item in mine.spent.score.every]
        differing = sum(a != b for a, b in zip(verdicts, evaluation.verdicts, strict=True))
        found.append(Pair(mine, training, evaluation, differing))
        place.note(f"pair {number - 1}", facts(found[-1]))
    return found


def facts(pair: Pair) -> dict[str, object]:
    """The seconds behind the ratios, for `details.json`."""
    ours, training, evaluation = pair.ours, pair.training, pair.evaluation
    both = zip((item.prediction.strip() for item in ours.spent.score.every), evaluation.answers, strict=True)
    other = [(mine, theirs.strip()) for mine, theirs in both if mine != theirs.strip()]
    return {
        "ours": {
            "train": ours.spent.train,
            "steps": ours.steps,
            "evaluate": ours.spent.evaluate,
            "generation": ours.generation,
            "orchestrator's CPU": ours.spent.own_cpu,
            "workers' and jobs' CPU": ours.spent.jobs_cpu,
        },
        "stock": {
            "train": training.spent.wall,
            "steps": training.steps,
            "evaluate": evaluation.spent.wall,
            "generation": evaluation.generation,
            "train CPU": training.spent.cpu,
            "evaluate CPU": evaluation.spent.cpu,
        },
        "beyond (ours, stock)": pair.beyond,
        "whole (ours, stock)": pair.whole,
        "score (ours, stock)": (ours.spent.score.value, 100 * sum(evaluation.verdicts) / len(evaluation.verdicts)),
        "same weights": ours.weights == digest_file(training.model / "model.safetensors"),
        "items with another answer": len(other),
        "first of them (ours, stock)": other[:1],
        "load": os.getloadavg(),
        "items with another verdict": pair.differing,
    }


@figure("reference experiment beyond steps and generation, ours / stock", "ratio", "<= 0.15")
def beyond(place: Place) -> float:
    """The least disturbed of our turns over the least disturbed of the stock tools'."""
    found = place.once(pairs)
    return min(p.beyond[0] for p in found) / min(p.beyond[1] for p in found)


@figure("reference experiment, ours / stock", "ratio", "<= 0.5")
def whole(place: Place) -> float:
    """Least over least."""
    found = place.once(pairs)
    return min(p.whole[0] for p in found) / min(p.whole[1] for p in found)


@figure("evaluation of a second model, ours / stock", "ratio", "<= 0.05")
def second_model(place: Place) -> float:
    """Warm engine, result cache off; another model was evaluated before."""
    found = place.once(pairs)
    return min(p.ours.spent.evaluate for p in found) / min(p.evaluation.spent.wall for p in found)


@figure("trainings whose weights differ from stock's", "trainings", "<= 0")
def other_weights(place: Place) -> float:
    """Same config, same seed: the same bytes."""
    found = place.once(pairs)
    return sum(p.ours.weights != digest_file(p.training.model / "model.safetensors") for p in found[-1:])


@figure("items with another verdict than stock's", "items", "<= 0")
def other_verdicts(place: Place) -> float:
    """Ours: our scorer on our batches; stock: OpenCompass's MATH evaluator on batches in file order."""
    return max(p.differing for p in place.once(pairs))
