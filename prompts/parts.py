"""The parts a prompt is made of: a brief in Markdown, the same words for everyone who decides."""

from __future__ import annotations

import re
from statistics import fmean

from tuneloop.core.brief import Brief, Budget, JournalRow, Task
from tuneloop.core.directive import Avoid, Bound, Focus, Keep, Sources, Use, Wish
from tuneloop.core.directive_words import described
from tuneloop.core.experiment import Hypothesis, Training
from tuneloop.core.ledger import KINDS, Kind, amount
from tuneloop.core.score import Score


def parts(brief: Brief) -> dict[str, str]:
    """Every name that a template may use."""
    return {
        "task": task(brief),
        "baseline": score(brief.baseline),
        "journal": journal(brief.journal),
        "budget": budget(brief),
        "hypothesis": hypothesis(brief.hypothesis),
        "diagnosis": diagnosis(brief),
        "failure": brief.failure or "none",
        "blamed": brief.blamed or "nobody",
        "script": fenced("python", brief.script),
        "config": fenced("yaml", brief.config),
        "result": result(brief),
        "wishes": wishes(brief.wishes),
    }


def wishes(given: tuple[Wish, ...]) -> str:
    """What the user wants of recipes, in a line; what concerns the run alone is left out."""
    told = [described(w) for w in given if isinstance(w, Use | Bound | Keep | Avoid | Sources | Focus)]
    return "; ".join(" ".join(text.split()) for text in told) or "none"


def fenced(language: str, text: str) -> str:
    """A file of the recipe that failed."""
    mark = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{mark}{language}\n{text.rstrip()}\n{mark}" if text else "none yet"


def task(brief: Brief) -> str:
    """The task card."""
    t = brief.task
    better = "higher" if t.direction == "max" else "lower"
    return "\n".join(
        (
            f"- benchmark: {t.benchmark} ({t.domain}); metric {t.metric}, {better} is better",
            f"- what is asked: {t.description}",
            f"- prompt template: {t.prompt!r}; answer found as: {t.answer}{_final(t)}; "
            f"at most {t.max_new_tokens} new tokens, greedy",
            f"- base model: {t.base_model} on {t.device}; data sets: {', '.join(t.datasets)}",
            f"- at most {t.row_limit} training rows; seed {t.seed}",
            *_models(brief),
        )
    )


def _final(t: Task) -> str:
    return f", a right reply ends with {t.final!r}" if t.final else ""


def _models(brief: Brief) -> tuple[str, ...]:
    """What the data script may ask, where it may ask anything."""
    t = brief.task
    if not (t.strong_models or t.weak_models):
        return ()
    return (
        f"- models that `process_data.py` may ask with `tuneloop_models`: strong {', '.join(t.strong_models) or 'none'}; "
        f"weak {', '.join(t.weak_models) or 'none'}; at most {t.model_workers} requests at once",
    )


def score(value: Score | None) -> str:
    """A score with its interval."""
    if value is None:
        return "not measured"
    return (
        f"{value.value:.1f} [{value.low:.1f}, {value.high:.1f}], n = {value.n}, answers found in {value.parsed:.0f} %"
    )


def journal(rows: tuple[JournalRow, ...]) -> str:
    """Earlier experiments as a table."""
    if not rows:
        return "No experiment yet."
    head = "| # | outcome | hypothesis | rows | steps | score | p | blame | lesson |\n|---|---|---|---|---|---|---|---|---|"
    return "\n".join((head, *map(_row, rows)))


def _row(r: JournalRow) -> str:
    value = "-" if r.value is None else f"{r.value:.1f} [{r.low:.1f}, {r.high:.1f}]"
    value += "".join(f"; {name} {v:.1f}" for name, v in r.also.items())
    p = "-" if r.p_value is None else f"{r.p_value:.3g}"
    steps = trained_steps(r.training) if r.training else "-"
    cells = (
        r.number,
        r.outcome,
        r.hypothesis.statement,
        r.rows or "-",
        steps,
        value,
        p,
        r.blame,
        r.failure or r.lesson,
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def trained_steps(t: Training) -> str:
    """Steps of the model, and of how many where the training was stopped."""
    return str(t.steps) if t.stopped is None else f"{t.steps} of {t.stopped.of}, {t.stopped.kind}"


def budget(brief: Brief) -> str:
    """What is left."""
    b = brief.budget
    left = "unlimited" if b.experiments_left is None else str(b.experiments_left)
    time = "unlimited" if b.seconds_left is None else f"{b.seconds_left:.0f} s"
    each = "" if b.seconds_per_experiment is None else f"; one experiment took {b.seconds_per_experiment:.0f} s"
    return f"Experiments left, this one included: {left}. Time left: {time}{each}.{_spending(b)}"


def _spending(b: Budget) -> str:
    """What is left of the other limits that there are, and what experiments took."""
    left: tuple[tuple[Kind, float | None], ...] = (
        ("GPU-hours", b.gpu_hours_left), ("tokens", b.tokens_left), ("money", b.money_left)
    )  # fmt: skip
    told = [amount(kind, value) for kind, value in left if value is not None]
    took = b.usual and ", ".join(amount(kind, b.usual.of(kind)) for kind in KINDS if b.usual.of(kind))
    each = f"; an experiment usually takes {took}" if took else ""
    return f" Left to spend: {', '.join(told)}{each}." if told else ""


def hypothesis(value: Hypothesis | None) -> str:
    """The idea to carry out."""
    if value is None:
        return "none"
    steps = [f"- {s.do} {s.options or ''}: {s.why}" for s in value.data_plan]
    config = [f"- {k}: {v}" for k, v in value.training_plan.items()]
    return "\n".join((value.statement, f"Reason: {value.reason}", "Data plan:", *steps, "Training plan:", *config))


def diagnosis(brief: Brief) -> str:
    """What the validator said of the attempt before."""
    if brief.diagnosis is None:
        return "This is the first attempt."
    d = brief.diagnosis
    return f"Attempt {brief.attempt} failed ({d.culprit}): {d.problem}\nRepair: {d.repair}"


def _also(brief: Brief) -> list[str]:
    """Further benchmarks, as a table with the average; they decide nothing."""
    if not (brief.also and brief.score and brief.baseline):
        return []
    pairs = {brief.score.benchmark: (brief.baseline, brief.score)}
    pairs |= {name: (brief.also_baseline[name], found) for name, found in brief.also.items()}
    rows = [f"| {name} | {base.value:.1f} | {found.value:.1f} |" for name, (base, found) in pairs.items()]
    means = [fmean(scores[i].value for scores in pairs.values()) for i in (0, 1)]
    head = ["| benchmark (the first decides) | untouched | this |", "|---|---|---|"]
    return [*head, *rows, f"| average | {means[0]:.1f} | {means[1]:.1f} |"]


def result(brief: Brief) -> str:
    """Score, comparison and training of the open experiment."""
    lines = [f"Score: {score(brief.score)}", *_also(brief)]
    if brief.comparison is not None:
        c = brief.comparison
        verdict = f"rejected: {'; '.join(brief.reasons)}" if brief.reasons else "accepted"
        clusters = f" in {c.units} clusters" if c.units and c.units != c.n else ""
        lines.append(
            f"Against the incumbent: {c.gain:+.1f} points on {c.n} items{clusters} ({c.wins} won, {c.losses} lost), "
            f"p = {c.p_value:.3g}, wanted <= {c.threshold:.3g}: {verdict}. "
            f"Smallest gain this split could show: {c.smallest_gain:.1f} points."
        )
    if brief.training is not None:
        t = brief.training
        lines.append(
            f"Training: {t.rows} rows, {t.steps} steps, {t.seconds:.0f} s, loss {t.first_loss:.3f} -> {t.last_loss:.3f}, "
            f"change over the last quarter {100 * t.tail_slope:+.1f} %"
        )
        if t.stopped is not None:
            s = t.stopped
            lines.append(f"It was stopped at step {s.at} of {s.of}, its model is that of step {s.step}: {s.text}")
    return "\n".join(lines)
