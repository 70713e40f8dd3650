"""Each event in words: the same in a terminal, in lines and in messages."""

from __future__ import annotations

from tuneloop.core import events as e
from tuneloop.core.wording import clean, duration, interval, p


def line(event: e.Event) -> str | None:  # noqa: PLR0911 - one line an event
    """The event in words; None for what the next event says better."""
    match event:
        case e.RunStarted():
            return f"run {event.run}: {event.benchmark}, {event.base_model}, planner {event.planner}, {event.sandbox}"
        case e.NodeStarted():
            return None
        case e.NodeFinished():
            return f"{event.node} done in {duration(event.seconds)}{f': {clean(event.detail)}' if event.detail else ''}"
        case e.AgentAnswered():
            return f"{event.agent}: {clean(event.says)}{f' (because {clean(event.why)})' if event.why else ''}"
        case e.JobProgress():
            return f"{event.job}: {progress(event)}"
        case e.Watched():
            verb = "stopped" if event.stops else "watch"
            return f"{event.job} {verb} at step {event.step}/{event.total}: {clean(event.text)}"
        case e.Problem():
            return f"problem in {event.node} ({event.culprit}): {clean(event.text)}"
        case e.BaselineMeasured():
            return f"base model: {interval(event.value, event.low, event.high)} on {event.n} validation items"
        case e.ExperimentFinished():
            score = interval(event.value, event.low, event.high)
            return f"{event.outcome}: {score}, p {p(event.p_value)}: {clean(event.statement)}"
        case e.RunPaused():
            return f"paused: {clean(event.reason)}"
        case e.RunFinished():
            return finish_line(event)


def progress(event: e.JobProgress, left: str = "") -> str:
    """`40/100 steps, 8 s left loss 1.2`; `left` is the forecast in words."""
    total = f"/{event.total}" if event.total else ""
    return f"{event.done}{total} {event.unit}{left and f', {left} left'} {clean(event.note)}".rstrip()


def finish_line(event: e.RunFinished) -> str:
    """The result in one line."""
    if event.best is None:
        return f"finished: no experiment was provably better than the base model; report: {event.report}"
    test = f"sealed test {interval(event.baseline_test, None, None)} -> {interval(event.best_test, None, None)}"
    return f"finished: best is experiment {event.best}, {test}; report: {event.report}"
