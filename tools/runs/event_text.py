"""Each event in words: the same in a terminal, in lines and in messages."""

from __future__ import annotations

from tuneloop.core import events as e
from tuneloop.core.budget import SpendingLine
from tuneloop.core.experiment import forecast_error_percent
from tuneloop.core.formatting import format_duration, format_gain, format_interval, format_size, printable


def event_line(event: e.Event) -> str | None:
    """The event in words, one printable line; None for what the next event says better."""
    said = _line(event)
    return None if said is None else printable(said, 4000)


def _line(event: e.Event) -> str | None:  # noqa: PLR0911, PLR0912 - one line an event
    match event:
        case e.RunStarted():
            said = f"run {event.run}: {event.benchmark}, {event.base_model}, planner {event.planner}, {event.sandbox}"
            return printable(f"{said} ({event.sandbox_note})" if event.sandbox_note else said, 1000)
        case e.NodeStarted() | e.NodeInterrupted():
            return None
        case e.NodeFinished():
            return f"{event.node} done in {format_duration(event.seconds)}{f': {printable(event.detail)}' if event.detail else ''}"
        case e.AgentAnswered():
            return f"{event.agent}: {printable(event.says)}{f' (because {printable(event.why)})' if event.why else ''}"
        case e.AgentStreaming():
            return f"{event.agent} ({printable(event.model, 60)}) …{printable(event.text, 120)}"
        case e.ToolCalled():
            return f"{event.agent} uses {event.tool} {printable(event.arguments, 120)}{' (refused)' if event.refused else ''}"
        case e.ModelCalled():
            return model_called_line(event)
        case e.PlannerFallback():
            to = "the offline policy" if event.to == "offline" else printable(event.to, 60)
            return f"{event.agent}: {printable(event.left, 60)} does not answer, {to} does ({printable(event.reason)})"
        case e.JobProgress():
            return f"{event.job}: {progress_line(event)}"
        case e.MonitorFinding():
            verb = "stopped" if event.stops else "watch"
            return f"{event.job} {verb} at step {event.step}/{event.total}: {printable(event.text)}"
        case e.TrainingForecast():
            return forecast_line(event)
        case e.ThroughputMeasured():
            return throughput_line(event)
        case e.RecipeFailure():
            return f"problem in {event.node} ({event.culprit}): {printable(event.text)}"
        case e.PowerEstimated():
            return power_line(event)
        case e.BaselineMeasured():
            return f"base model: {format_interval(event.value, event.low, event.high)} on {event.n:,} validation items"
        case e.ValidationChosen():
            return validation_line(event)
        case e.ExperimentFinished():
            return experiment_line(event)
        case e.MessageAnswered():
            return f"you: {printable(event.said)} -> {printable(event.answer)}"
        case e.Approval():
            return approval_line(event)
        case e.LimitWarning():
            return limit_warning_line(event)
        case e.RunPaused():
            return f"paused: {printable(event.reason)}"
        case e.RunFinished():
            return run_finished_line(event)


def model_called_line(event: e.ModelCalled) -> str:
    """`critic: gpt-5 said 412 tokens in 8 s (5210 in, 4096 of them cached)`, or why it is asked again."""
    who = f"{event.agent}: {printable(event.model, 60)}"
    if event.wait is not None:
        return f"{who} failed, asked again in {format_duration(event.wait)}: {printable(event.error, 160)}"
    cost = "" if event.cost is None else f", cost {event.cost:.4f}"
    cached = f", {event.cached} of them cached" if event.cached else ""
    return (
        f"{who} said {event.tokens_out} tokens in {format_duration(event.seconds)} ({event.tokens_in} in{cached}){cost}"
    )


def approval_line(event: e.Approval) -> str:
    """`approval of the plan: asked`, or the answer with its reason."""
    reason = f" ({printable(event.reason)})" if event.reason else ""
    return f"approval of the {event.when}: {event.decision}{reason}"


def limit_warning_line(event: e.LimitWarning) -> str:
    """`money: 4.10 of 5.00 USD are spent (82 %)`."""
    said = SpendingLine(event.of, event.spent, event.limit)
    return f"{event.of}: {said} are spent ({100 * said.share:.0f} %)"


def experiment_line(event: e.ExperimentFinished) -> str:
    """`+3.0 points (95 %: 0.9 to 5.1) on 1,000 items: promoted, 71.5 (69-74): A higher learning rate.`."""
    said = f"{printable(event.statement)}{f' ({printable(event.why)})' if event.why else ''}"
    if event.gain is None or event.gain_low is None or event.gain_high is None:
        return f"{event.outcome}: {said}"
    against = f"{format_gain(event.gain, event.gain_low, event.gain_high)} on {event.n or 0:,} items"
    return f"{against}: {event.outcome}, {format_interval(event.value, event.low, event.high)}: {said}"


def power_line(event: e.PowerEstimated) -> str:
    """`the sealed test (500 items) finds a gain of 6.2 points four times in five`."""
    return f"the sealed test ({_items(event.sealed)}) finds a gain of {event.sealed.smallest:.1f} points four times in five"


def validation_line(event: e.ValidationChosen) -> str:
    """`1,000 validation items, 500 of them shown to agents (why); guard mmlu: 300 items can …`."""
    clusters = "" if event.units == event.n else f" in {event.units:,} clusters"
    shown = f"{event.n - event.unseen:,} of them" if event.unseen else "all of them"
    parts = [f"{event.n:,} validation items{clusters}, {shown} shown to agents ({printable(event.why)})"]
    for guard in event.guards:
        said = f"guard {printable(guard.benchmark)}: {_items(guard)} can rule out a loss of {guard.smallest:.1f} points"
        short = guard.allowed is not None and guard.allowed < guard.smallest
        parts.append(f"{said}, allowed are {guard.allowed:g}{'; the measured loss will decide' if short else ''}")
    return "; ".join(parts)


def _items(seen: e.SplitPower) -> str:
    return f"{seen.n:,} items" if seen.units == seen.n else f"{seen.n:,} items in {seen.units:,} clusters"


def progress_line(event: e.JobProgress, left: str = "") -> str:
    """`40/100 steps, 8 s left loss 1.2`; `left` is the forecast in words."""
    total = f"/{event.total}" if event.total else ""
    return f"{event.done}{total} {event.unit}{left and f', {left} left'} {printable(event.note)}".rstrip()


def forecast_line(event: e.TrainingForecast) -> str:
    """`forecast: 320 steps in 1 min 05 s …; fits …`, or what the training took beside it, with the error."""
    said, took = event.forecast, event.took
    if took is not None:
        parts = [
            f"{format_duration(took.seconds)} (forecast: {_forecast_error(said.seconds, took.seconds)})",
            f"{took.cpu:.0f} CPU-s ({_forecast_error(said.cpu, took.cpu)})",
            f"{format_size(took.memory)} of memory ({_forecast_error(said.memory, took.memory)})",
        ]
        return f"training took {', '.join(parts)}"
    device = f" and {format_size(said.device_memory)} on the device" if said.device_memory else ""
    left = f"; {format_duration(event.seconds_left)} are left" if event.seconds_left is not None else ""
    limit = f"; {format_size(event.memory_limit)} may be used" if event.memory_limit else ""
    whole = f"{said.steps} steps in {format_duration(said.seconds)} ({said.cpu:.0f} CPU-s)"
    return f"forecast: {whole}, {format_size(said.memory)} of memory{device}, {format_size(said.disk)} of disk{left}{limit}"


def throughput_line(event: e.ThroughputMeasured) -> str:
    """`training speed: a step of 16 rows of 128 tokens takes 12.0 s (lora, …; measured by an earlier run)`."""
    found, step = event.throughput, (16, 128)
    by = "; measured by an earlier run" if event.known else ""
    said = f"a step of {step[0]} rows of {step[1]} tokens takes {found.step_seconds(*step):.1f} s"
    return f"training speed: {said} ({found.measured_with}{by})"


def _forecast_error(forecast: float, real: float) -> str:
    error = forecast_error_percent(forecast, real)
    return f"{abs(error):.0f} % too {'high' if error > 0 else 'low'}" if round(error) else "right"


def run_finished_line(event: e.RunFinished) -> str:
    """The result in one line."""
    return f"finished: {printable(event.says, 1000)} Report: {event.report}"
