"""The live view on recorded events: board, terminal, plain lines, JSON lines, torn and hostile logs."""

from __future__ import annotations

import io
import json
import re
import threading
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tuneloop.cli.live import follow, showing
from tuneloop.cli.live_panels import LiveState, apply_event, incumbent, render, rich_view, seconds_left
from tuneloop.cli.plain_view import plain_view
from tuneloop.core import event_log
from tuneloop.core import events as e
from tuneloop.core.event_log import read_events
from tuneloop.core.events import (
    EVENT,
    AgentAnswered,
    BaselineMeasured,
    Event,
    ExperimentFinished,
    JobProgress,
    NodeFinished,
    NodeStarted,
    PowerEstimated,
    RecipeFailure,
    RunFinished,
    RunPaused,
    RunStarted,
    SplitPower,
    TrainingForecast,
    ValidationChosen,
)
from tuneloop.core.experiment import Cost, Critique, Experiment, Feedback, Forecast, Hypothesis, Throughput
from tuneloop.core.files import write_json
from tuneloop.core.formatting import printable
from tuneloop.core.layout import RunFolder
from tuneloop.core.score import Score
from tuneloop.tools.runs.event_text import event_line

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def live_state_of(events: Iterable[Event]) -> LiveState:
    return reduce(apply_event, events, LiveState())


def recorded() -> list[Event]:
    """A whole run: baseline, one experiment promoted, one failed, one not promoted."""
    return [
        RunStarted(
            at=at(0), run="r1", benchmark="b", base_model="tiny", planner="offline policy", sandbox="bubblewrap"
        ),
        NodeStarted(at=at(1), node="prepare"),
        PowerEstimated(at=at(2), sealed=SplitPower(benchmark="b", n=500, units=25, smallest=21.04)),
        ValidationChosen(
            at=at(3),
            benchmark="b",
            n=1000,
            unseen=513,
            units=1000,
            why="as asked",
            guards=(SplitPower(benchmark="mmlu", n=300, units=300, smallest=7.1, allowed=2),),
        ),
        BaselineMeasured(at=at(20), value=9, low=6, high=14, n=1000),
        NodeFinished(at=at(21), node="prepare", seconds=20, detail="then research"),
        AgentAnswered(at=at(22), experiment=1, agent="researcher", says="start plain", why="there is no evidence yet"),
        NodeStarted(at=at(23), experiment=1, node="train"),
        *(JobProgress(at=at(24 + i), experiment=1, job="train", done=i * 10, total=100) for i in range(11)),
        NodeFinished(at=at(35), experiment=1, node="train", seconds=12, detail=""),
        ExperimentFinished(
            at=at(50),
            experiment=1,
            outcome="promoted",
            statement="start plain",
            value=60,
            low=53,
            high=66,
            n=1000,
            gain=51,
            gain_low=47.2,
            gain_high=54.1,
        ),
        RecipeFailure(at=at(60), experiment=2, node="smoke_run", culprit="config", text="loss is NaN"),
        ExperimentFinished(at=at(61), experiment=2, outcome="failed", statement="train hotter"),
        ExperimentFinished(
            at=at(90),
            experiment=3,
            outcome="not promoted",
            statement="more rows",
            value=59,
            low=54,
            high=67,
            n=1000,
            gain=-1,
            gain_low=-3,
            gain_high=1,
        ),
        RunFinished(
            at=at(99),
            report="/runs/r1/report.md",
            says="Experiment 1 is better than the base model. The model: best/.",
            best=1,
            delivered=True,
        ),
    ]


def write(path: Path, events: list[Event], tail: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(e.model_dump_json(exclude_none=True) + "\n" for e in events) + tail)


def drawn(board: LiveState, seconds: float) -> str:
    console = Console(file=io.StringIO(), width=110, force_terminal=False)
    console.print(render(board, at(seconds)))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_board_of_a_whole_run() -> None:
    board = live_state_of(recorded())
    assert [row.outcome for row in board.rows] == ["promoted", "failed", "not promoted"]
    assert incumbent(board) == 1
    assert board.work == {}
    text = drawn(board, 100)
    for said in (
        "1 ★",
        "60.0 (53-66)",
        "+51.0",
        "59.0 (54-67)",
        "-1.0",
        "researcher start plain",
        "because there is no",
    ):
        assert said in text
    assert "finished: Experiment 1 is better than the base model." in text
    assert "the sealed test (500 items in 25 clusters) finds a gain of 21.0 points" in text


def test_what_a_split_can_show_is_said_in_words() -> None:
    told = (PowerEstimated, ValidationChosen, BaselineMeasured, ExperimentFinished)
    said = [event_line(event) for event in recorded() if isinstance(event, told)]
    assert said == [
        "the sealed test (500 items in 25 clusters) finds a gain of 21.0 points four times in five",
        "1,000 validation items, 487 of them shown to agents (as asked); guard mmlu: 300 items can rule out a loss of 7.1 "
        "points, allowed are 2; the measured loss will decide",
        "base model: 9.0 (6-14) on 1,000 validation items",
        "+51.0 points (95 %: 47.2 to 54.1) on 1,000 items: promoted, 60.0 (53-66): start plain",
        "failed: train hotter",
        "-1.0 points (95 %: -3.0 to 1.0) on 1,000 items: not promoted, 59.0 (54-67): more rows",
    ]
    better = ExperimentFinished(outcome="not promoted", statement="more rows", why="mmlu: lost 4.0 points")
    assert event_line(better) == "not promoted: more rows (mmlu: lost 4.0 points)"


def test_no_line_before_the_end_speaks_of_proof() -> None:
    for event in recorded()[:-1]:
        assert not re.search(r"\bp [=<]|\bprov|signific|accept|better than", event_line(event) or ""), event


@pytest.mark.parametrize("event", recorded(), ids=lambda event: event.kind)
def test_an_event_is_read_again_as_it_was_written(event: Event) -> None:
    assert EVENT.validate_json(event.model_dump_json(exclude_none=True)) == event


@pytest.mark.parametrize("kind", get_args(get_args(Event)[0]), ids=lambda kind: kind.__name__)
def test_what_may_be_none_may_be_left_out_of_an_event(kind: type[Event]) -> None:
    """Events are written without what is None: a field that may be None needs that default."""
    for name, field in kind.model_fields.items():
        assert not (type(None) in get_args(field.annotation) and field.is_required()), name


def test_words_of_a_choice_without_a_hidden_half() -> None:
    few = ValidationChosen(benchmark="b", n=60, unseen=0, units=12, why="as asked")
    assert event_line(few) == "60 validation items in 12 clusters, all of them shown to agents (as asked)"


def test_a_run_without_a_model_tells_its_end() -> None:
    end = RunFinished(report="/r.md", says="No experiment measured better than the base model.", baseline_test=10)
    again = EVENT.validate_json(end.model_dump_json(exclude_none=True))
    assert again == end
    assert event_line(again) == "finished: No experiment measured better than the base model. Report: /r.md"


def test_board_in_the_middle_of_a_training() -> None:
    events = recorded()
    middle = events[: next(i for i, e in enumerate(events) if isinstance(e, JobProgress) and e.done == 50) + 1]
    text = drawn(live_state_of(middle), 40)
    assert "experiment 1 · train  17 s" in text
    assert "50/100 steps, 5 s left" in text


def side_by_side() -> list[Event]:
    """Of experiments 1 to 4 the first trains, the second waits for its turn, the third is thought of, the fourth is over."""
    return [
        recorded()[0],
        NodeStarted(at=at(1), node="prepare"),
        NodeFinished(at=at(2), node="prepare", seconds=1),
        NodeStarted(at=at(3), node="research"),
        NodeFinished(at=at(4), experiment=1, node="research", seconds=1),
        NodeStarted(at=at(5), experiment=1, node="train"),
        NodeStarted(at=at(6), experiment=1, node="research"),
        NodeFinished(at=at(7), experiment=2, node="research", seconds=1),
        NodeStarted(at=at(8), experiment=2, node="evaluate"),
        JobProgress(at=at(9), experiment=2, job="evaluate", done=1, total=4),
        JobProgress(at=at(10), experiment=1, job="train", done=30, total=90),
        NodeFinished(at=at(11), experiment=2, node="evaluate", seconds=3),
        NodeStarted(at=at(12), experiment=4, node="critique"),
        ExperimentFinished(at=at(13), experiment=4, outcome="failed", statement="x"),
        NodeFinished(at=at(13), experiment=4, node="critique", seconds=1),
        NodeStarted(at=at(14), experiment=2, node="research"),
        e.ToolCalled(at=at(15), experiment=3, agent="researcher", tool="data_profile", arguments="{}", says="…"),
        AgentAnswered(at=at(16), experiment=1, agent="validator", says="fits"),
    ]


def test_experiments_side_by_side_are_all_shown() -> None:
    text = drawn(live_state_of(side_by_side()), 20)
    assert "experiment 1 · train  15 s" in text and "30/90 steps" in text
    assert "experiment 2 · evaluate  waits" in text and "1/4" not in text
    assert "experiment 3 · research  6 s" in text and "researcher uses data_profile" in text
    assert "experiment 4 ·" not in text and "prepare" not in text
    assert "[1] validator fits" in text


def test_of_a_researcher_that_stops_nothing_is_left_open() -> None:
    stopped = NodeFinished(at=at(17), experiment=2, node="research", seconds=1, detail="then finish")
    assert sorted(live_state_of([*side_by_side(), stopped]).work) == [1, 2]
    finish = NodeStarted(at=at(18), experiment=2, node="finish")
    assert [work.node.node for work in live_state_of([*side_by_side(), stopped, finish]).work.values()] == ["finish"]


def test_of_very_many_the_oldest_are_drawn() -> None:
    begun = [NodeStarted(at=at(n), experiment=n, node="train") for n in range(1, 31)]
    text = drawn(live_state_of([recorded()[0], *begun]), 40)
    assert text.count("▶") == 12 and "18 more experiments are open" in text


def test_forecast_needs_a_pace() -> None:
    first, later = (JobProgress(at=at(s), job="j", done=d, total=100) for s, d in ((0, 10), (9, 40)))
    assert seconds_left(first, first) is None
    assert seconds_left(first, later) == pytest.approx(18)
    assert seconds_left(first, later.model_copy(update={"total": 0})) is None


def test_a_repeated_experiment_replaces_its_row() -> None:
    once = ExperimentFinished(experiment=1, outcome="failed", statement="x")
    again = ExperimentFinished(experiment=1, outcome="promoted", statement="x", value=1, low=0, high=2)
    assert live_state_of([once, again]).rows == (again,)


def test_resuming_takes_the_end_away() -> None:
    started = recorded()[0]
    assert live_state_of([started, RunPaused(reason="stop")]).end is not None
    assert live_state_of([started, RunPaused(reason="stop"), started]).end is None
    assert live_state_of([started, RunPaused(reason="stop"), NodeStarted(node="train")]).end is None


@given(st.lists(st.sampled_from([*recorded(), *side_by_side()])))
def test_any_order_of_events_can_be_drawn(events: list[Event]) -> None:
    assert drawn(live_state_of(events), 1000)


def test_plain_lines_throttle_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with plain_view() as show:
        show(recorded())
    lines = capsys.readouterr().out.splitlines()
    progress = [line for line in lines if "train: " in line]
    assert [line.split("train: ")[1].split()[0] for line in progress] == ["0/100", "100/100"]
    assert any("[1] +51.0 points (95 %: 47.2 to 54.1) on 1,000 items: promoted" in line for line in lines)
    assert any("[2] problem in smoke_run (config): loss is NaN" in line for line in lines)
    assert lines[-1].startswith("12:01:39 finished: Experiment 1 is better")


def test_the_end_of_a_job_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    """An engine's packages are all there long before the last of them is written."""
    with plain_view() as show:
        show(
            [JobProgress(job="torch", done=done, total=2) for done in (1, 2, 2, 2, 1, 2)]
        )  # the last two: an attempt more
    assert [line.split("torch: ")[1].split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "1/2",
        "2/2",
        "1/2",
        "2/2",
    ]


def test_json_lines_are_the_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = RunFolder(tmp_path)
    write(run.events, recorded())
    follow(run, True, lambda: True)
    kinds = [json.loads(line)["kind"] for line in capsys.readouterr().out.splitlines()]
    assert kinds == [e.kind for e in recorded()]


def test_a_torn_line_waits_and_a_damaged_one_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    one, two = (NodeStarted(node=n).model_dump_json() + "\n" for n in ("a", "b"))
    assert read_events(path) == ([], 0)
    path.write_text(one + two[:20])
    events, offset = read_events(path)
    assert [e.node for e in events if isinstance(e, NodeStarted)] == ["a"]
    assert offset == len(one)
    path.write_text(one + two + '{"kind":"node_st{"kind":"from the future"}\n\xff\n' + two)
    events, offset = read_events(path, offset)
    assert [e.node for e in events if isinstance(e, NodeStarted)] == ["b", "b"]
    assert read_events(path, offset) == ([], offset)


@given(st.binary(max_size=200))
def test_any_bytes_can_be_read(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("log") / "events.jsonl"
    path.write_bytes(data)
    events, offset = read_events(path)
    assert events == []
    assert offset <= len(data)


@given(st.text())
def test_foreign_text_cannot_steer_the_terminal(text: str) -> None:
    line = printable("\x1b[2J\x07" + text + "\r\n\u202e")
    assert line.isprintable()
    assert len(line) <= 300


def test_markup_of_a_model_is_shown_not_obeyed() -> None:
    board = live_state_of([AgentAnswered(agent="critic", says="[bold]so[/bold] [/] [link=file:///x]")])
    assert "[bold]so[/bold] [/] [link=file:///x]" in drawn(board, 0)


def test_showing_drains_what_was_written_last(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = RunFolder(tmp_path)
    write(run.events, recorded()[:3])
    with (
        showing(run, as_json=True),
        run.events.open("a") as f,
    ):  # as the one writer does; a file begun anew is read anew
        f.writelines(e.model_dump_json(exclude_none=True) + "\n" for e in recorded()[3:])
        f.flush()
    kinds = [json.loads(line)["kind"] for line in capsys.readouterr().out.splitlines()]
    assert kinds == [e.kind for e in recorded()[3:]], "only what happened since, and all of it"


def test_follow_sees_events_as_they_come(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, over = RunFolder(tmp_path), threading.Event()
    thread = threading.Thread(target=follow, args=(run, True, over.is_set))
    thread.start()
    for event in recorded():
        with run.events.open("a") as f:
            f.write(event.model_dump_json() + "\n")
    over.set()
    thread.join(5)
    assert len(capsys.readouterr().out.splitlines()) == len(recorded())


def test_the_terminal_view_redraws() -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    with rich_view(console) as show:
        show(recorded()[:4])
        time.sleep(0.3)
        show(recorded()[4:])
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "9.0 (6-14)" in text
    assert "sealed test" in text


def long_log(run: RunFolder, count: int) -> None:
    """A run whose first experiment is over and whose second trains, its log filled up with progress."""
    said = [e.model_dump_json(exclude_none=True) for e in recorded()[:4]]
    filler = JobProgress(at=at(30), experiment=1, job="train", done=1, total=9).model_dump_json()
    begun = NodeStarted(at=at(70), experiment=2, node="train").model_dump_json()
    late = JobProgress(at=at(80), experiment=2, job="train", done=5, total=9).model_dump_json()
    run.events.parent.mkdir(parents=True, exist_ok=True)
    with run.events.open("w") as f:
        f.write("\n".join(said) + "\n" + (filler + "\n") * count + begun + "\n" + (late + "\n") * count)


def test_late_viewer_gets_history_then_live_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = RunFolder(tmp_path / "r1")
    long_log(run, 20_000)
    base = Score(benchmark="b", split="validation", metric="m", value=9, low=6, high=14, n=200, parsed=100)
    write_json(run.baseline / "scores.json", base.model_dump(mode="json"))
    critique = Critique(explanation="e", lesson="l")
    done = Experiment(
        number=1,
        hypothesis=Hypothesis(statement="start plain", reason="r", disproof="d", aspect="first"),
        score=base.model_copy(update={"value": 60.0}),
        feedback=Feedback(promoted=True, critique=critique),
    )
    write_json(run.experiment(1).result, done.model_dump(mode="json"))
    began = time.process_time()
    follow(run, False, lambda: True)
    assert time.process_time() - began < 20
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 10, "the past in a few lines"
    assert lines[0].endswith("run r1: b, tiny, planner offline policy, bubblewrap")
    assert "base model: 9.0 (6-14)" in lines[1] and "[1] promoted: start plain" in lines[2]
    assert "[2] train: 5/9 steps" in lines[3]


def test_a_script_gets_every_event_of_a_long_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = RunFolder(tmp_path / "r1")
    long_log(run, 15_000)
    follow(run, True, lambda: True)
    assert len(capsys.readouterr().out.splitlines()) == 30_005


def test_a_log_that_was_replaced_is_read_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, looks = RunFolder(tmp_path / "r1"), iter(range(9))
    write(run.events, recorded())

    def over() -> bool:
        look = next(looks)
        if look == 1:
            write(run.events, recorded()[:2])
        return look >= 3

    follow(run, True, over)
    kinds = [json.loads(line)["kind"] for line in capsys.readouterr().out.splitlines()]
    assert kinds == [e.kind for e in (*recorded(), *recorded()[:2])]


@given(
    st.lists(st.sampled_from(recorded()), max_size=30),
    st.sampled_from(["node_started", "job_progress", "recipe_failure"]),
)
def test_the_last_line_of_a_kind(tmp_path_factory: pytest.TempPathFactory, events: list[Event], kind: str) -> None:
    path = tmp_path_factory.mktemp("log") / "events.jsonl"
    write(path, events, tail='{"kind":"torn')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_log, "BLOCK", 100)
        found = event_log.find_last_event_offset(path, kind)
    lines = path.read_text().splitlines(keepends=True)
    wanted = [i for i, event in enumerate(events) if event.kind == kind]
    assert found == (len("".join(lines[: wanted[-1]]).encode()) if wanted else None)


def test_a_forecast_and_what_it_took() -> None:
    made = Forecast(
        seconds=65, cpu=60, memory=900_000_000, steps=320, seconds_per_step=0.2, overhead=1, disk=20_000_000, recipe="x"
    )
    said = TrainingForecast(experiment=1, forecast=made, seconds_left=7200, memory_limit=21_000_000_000)
    took = TrainingForecast(experiment=1, forecast=made, took=Cost(seconds=50, cpu=60, memory=1_000_000_000))
    assert event_line(said) == (
        "forecast: 320 steps in 1 min 05 s (60 CPU-s), 900 MB of memory, 20 MB of disk; 2 h 00 min are left; "
        "21.0 GB may be used"
    )
    want = "training took 50 s (forecast: 30 % too high), 60 CPU-s (right), 1.0 GB of memory (10 % too low)"
    assert event_line(took) == want
    shown = " ".join(drawn(live_state_of([*recorded()[:3], said, took]), 30).split())
    assert want in shown and "forecast: 320 steps" in shown


def test_how_fast_the_model_trains_here() -> None:
    found = Throughput(
        method="lora", device="cpu", threads=2, rows=2, tokens=100, seconds=0.5, per_token=0.005, overhead=6
    )
    told = e.ThroughputMeasured(throughput=found, known=True)
    want = (
        "training speed: a step of 16 rows of 128 tokens takes 10.2 s (lora, batches of 2 rows, on cpu with 2 thread(s); "
        "measured by an earlier run)"
    )
    assert event_line(told) == want
    assert want in " ".join(drawn(live_state_of([*recorded()[:3], told]), 30).split())


def test_what_models_do_is_said_in_words() -> None:
    said = e.ModelCalled(
        agent="critic", model="gpt", outcome="answered", tokens_in=500, tokens_out=20, cached=400, seconds=3, cost=0.01
    )
    assert event_line(said) == "critic: gpt said 20 tokens in 3 s (500 in, 400 of them cached), cost 0.0100"
    failed = e.ModelCalled(agent="critic", model="gpt", outcome="failed", error="503\nbusy", wait=8)
    assert event_line(failed) == "critic: gpt failed, asked again in 8 s: 503 busy"
    fell = e.PlannerFallback(agent="critic", left="gpt", to="offline", reason="503")
    assert event_line(fell) == "critic: gpt does not answer, the offline policy does (503)"
    used = e.ToolCalled(agent="critic", tool="data_report", arguments="{}", says="…", refused=True)
    assert event_line(used) == "critic uses data_report {} (refused)"
    thinks = e.AgentStreaming(agent="critic", model="gpt", text="The \x1b[31mform", letters=9)
    assert event_line(thinks) == "critic (gpt) …The [31mform"
    board = live_state_of([e.NodeStarted(node="critique"), thinks, fell, used])
    assert (board.words, board.work[0].streaming) == ((fell,), used)
    over = live_state_of([e.NodeStarted(node="critique"), thinks, e.NodeFinished(node="critique", seconds=1)])
    assert (over.work[0].over, over.work[0].streaming) == (True, None)
