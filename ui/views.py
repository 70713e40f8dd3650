"""What each page shows, read from the runs' folders alone: bounded in size, so that a long run costs no more than a short one."""

from __future__ import annotations

import contextlib
import difflib
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tuneloop.core import events as e
from tuneloop.core.budget import format_amount, spending_lines
from tuneloop.core.directive_log import read_conversation
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.event_log import events_backwards
from tuneloop.core.experiment import Experiment, Hypothesis, Journal
from tuneloop.core.files import checked, open_plain, read_model
from tuneloop.core.formatting import format_duration, format_gain_cell, format_interval
from tuneloop.core.layout import ExperimentFolder, Home, RunFolder
from tuneloop.core.run_spec import Setup
from tuneloop.core.score import Score
from tuneloop.core.settings import Settings
from tuneloop.core.transcript import TRANSCRIPT_SUFFIX
from tuneloop.tools.batch.comparison import COLUMNS, cell_texts
from tuneloop.tools.batch.comparison import compare_runs as compare_cells
from tuneloop.tools.batch.run import all_batches, batch_status, find_batch
from tuneloop.tools.benchmark_items.folder import BenchmarkFolder, read_items
from tuneloop.tools.report.report_file import read_report
from tuneloop.tools.runs.approvals import editable_texts, open_question
from tuneloop.tools.runs.compare import compare_runs
from tuneloop.tools.runs.event_text import event_line, progress_line
from tuneloop.tools.runs.journal import experiment_score, load_journal, shown_score
from tuneloop.tools.runs.manifest import all_runs, find_run
from tuneloop.tools.runs.status import TAIL, OpenExperiment, RunStatus, current_activity, run_row, run_status
from tuneloop.tools.scoring.failures import failure_kind
from tuneloop.tools.statistics import compare
from tuneloop.tools.training.result import log_points
from tuneloop.ui.charts import loss_chart

NODES = (
    "prepare", "research", "engineer_data", "write_config", "validate", "build_data", "smoke_run", "train", "evaluate",
    "critique", "finish",
)  # fmt: skip
SHOWN_RUNS = 200
SHOWN_EVENTS, SHOWN_EXPERIMENTS, SHOWN_JOBS, SHOWN_LINES, SHOWN_ITEMS, SHOWN_ROWS = 40, 50, 16, 20, 20, 5
LONGEST_TEXT = 1 << 20  # bytes of a file that a page shows
QUIET = (e.JobProgress, e.AgentStreaming, e.ModelCalled)


def runs_page(home: Home, search: str, order: str) -> dict[str, Any]:
    """The newest runs, those that hold `search` in a column, in an order."""
    runs = all_runs(home)
    rows = [list_row(run) for run in runs[:SHOWN_RUNS]]
    found = [row for row in rows if search.casefold() in " ".join(map(str, row.values())).casefold()]
    if order in ("name", "state", "benchmark", "base_model"):
        found.sort(key=lambda row: str(row[order]))
    elif order == "best":
        found.sort(key=lambda row: -row["rank"])
    return {"rows": found, "looked_at": len(rows), "all": len(runs), "search": search, "order": order}


def list_row(run: RunFolder) -> dict[str, Any]:
    """One run in the list; a damaged one says so."""
    row: dict[str, Any] = {**run_row(run), "best": "", "gain": "", "rank": -1.0}
    try:
        report = read_report(run) if run.report_json.is_file() else None
        best = load_journal(run).best
    except (InvalidRequestError, OSError) as error:
        return {**row, "best": f"damaged: {error}"}
    if report and report["best"]["test"]:
        row |= {"best": f"{report['best']['test']['value']:.1f} (test)", "rank": report["best"]["test"]["value"]}
        claim = report["claim"]
        row["gain"] = format_gain_cell(claim["gain"], claim["low"], claim["high"]) if claim and "gain" in claim else ""
    elif best and best.score:
        row |= {
            "best": format_interval(best.score.value, best.score.low, best.score.high),
            "rank": best.score.value,
        }
    return row


def run_page(home: Home, name: str) -> dict[str, Any]:
    """One run: what stays while it works."""
    run = find_run(home, name)
    return {"run": run.id, **now_page(run)}


def now_page(run: RunFolder) -> dict[str, Any]:
    """One run: what changes while it works."""
    status = run_status(run)
    now = current_activity(run, status.state)
    done = status.journal.experiments
    nodes = {status.stage, *(one.begun.node for one in status.open if not one.ended)}
    return {
        "status": status,
        "nodes": [(node, node in nodes) for node in NODES],
        "now": now,
        "at_work": [work for one in status.open[:SHOWN_JOBS] if (work := work_cells(run, one))],
        "question": None if status.state == "finished" else open_question(run),
        "experiments": [experiment_cells(one, status.best) for one in reversed(done[-SHOWN_EXPERIMENTS:])],
        "earlier": max(0, len(done) - SHOWN_EXPERIMENTS),
        "baseline": score_text(status.baseline),
        "spending": spending_rows(status),
        "events": newest_events(run),
        "conversation": read_conversation(run.conversation)[-SHOWN_LINES:],
        "has_report": run.report.is_file(),
    }


def work_cells(run: RunFolder, one: OpenExperiment) -> dict[str, Any] | None:
    """The job of an open experiment, and its loss so far; None where there is neither."""
    chart = loss_chart(log_points(run.experiment(one.number).model) if one.number else [])
    name, text = (one.job.job, progress_line(one.job)) if one.job else (one.place, "")
    shown = {"number": one.number, "name": name, "job": one.job, "text": text, "chart": chart}
    return shown if one.job or chart else None


def approval_page(home: Home, name: str) -> dict[str, Any]:
    """The recipe that a run asks about, to be changed. Raises InvalidRequestError where it asks about none."""
    run = find_run(home, name)
    asked = open_question(run)
    if asked is None or asked.at == "stop":
        raise InvalidRequestError(f"run {name!r} asks about no recipe now")
    folder = run.experiment(asked.experiment)
    for file in (folder.hypothesis, folder.script, folder.config):
        check_inside(run.root, file)
    texts = editable_texts(folder)
    return {"run": run.id, "number": asked.experiment, "key": asked.key, "texts": texts, "refused": ""}


def score_text(score: Score | None) -> str:
    """`69.0 (62-75)`, or nothing."""
    return format_interval(score.value, score.low, score.high) if score else ""


def experiment_cells(one: Experiment, best: Experiment | None) -> dict[str, Any]:
    """One line of the table of experiments."""
    comparison = one.feedback.comparison
    return {
        "number": one.number,
        "best": best is not None and best.number == one.number,
        "score": score_text(one.score),
        "gain": format_gain_cell(comparison.gain, comparison.low, comparison.high) if comparison else "",
        "outcome": one.outcome,
        "time": format_duration(one.seconds),
        "statement": one.hypothesis.statement,
        "parent": one.hypothesis.parent,
        "why": why(one),
    }


def why(one: Experiment) -> str:
    """Why an experiment was promoted or turned down, in a sentence."""
    if one.failure:
        return f"{one.failure.node}: {one.failure.text}"
    return "; ".join(one.feedback.reasons) or one.feedback.critique.explanation


def decision(one: Experiment) -> str:
    """The rule that decided, with its numbers; "" where nothing was compared."""
    found = one.feedback.comparison
    if found is None:
        return ""
    counted = f"{found.wins} items won and {found.losses} lost against the best before it"
    if one.feedback.promoted:
        return f"Promoted because it measures better: {counted}. That proves nothing yet: only the sealed test does, at the end."
    why = "something else speaks against it" if found.better else "it does not measure better"
    return f"Not promoted because {why}: {counted}."


def spending_rows(status: RunStatus) -> list[tuple[str, str, str]]:
    """What, spent, limit."""
    return [
        (line.kind, format_amount(line.kind, line.spent), format_amount(line.kind, line.limit) if line.limit else "")
        for line in spending_lines(status.spent, status.limits)
        if line.spent or line.limit is not None
    ]


def newest_events(run: RunFolder) -> list[dict[str, Any]]:
    """The newest events in words, the newest first; calls of tools in a row are folded into one line."""
    found: list[dict[str, Any]] = []
    for event in reversed([*events_backwards(run.events, TAIL)]):
        if isinstance(event, QUIET) or (text := event_line(event)) is None:
            continue
        if isinstance(event, e.ToolCalled) and found and found[-1]["calls"] and found[-1]["agent"] == event.agent:
            found[-1]["calls"].append(text)
            continue
        calls = [text] if isinstance(event, e.ToolCalled) else []
        agent = event.agent if isinstance(event, e.ToolCalled | e.AgentAnswered) else ""
        found.append({"at": event.at, "kind": event.kind, "text": text, "calls": calls, "agent": agent})
    return found[: -SHOWN_EVENTS - 1 : -1]


def experiment_page(home: Home, name: str, number: int, against: int | None) -> dict[str, Any]:
    """One experiment, its files beside those of another. Raises InvalidRequestError where there is none of the number."""
    run = find_run(home, name)
    folder, journal = run.experiment(number), load_journal(run)
    one = next((found for found in journal.experiments if found.number == number), None)
    if one is None and not folder.hypothesis.is_file():
        raise InvalidRequestError(f"run {name!r} has no experiment {number}")
    idea = one.hypothesis if one else read_model(folder.hypothesis, Hypothesis)
    other = against if against is not None else idea.parent
    return {
        "run": run.id,
        "number": number,
        "idea": idea,
        "one": one,
        "cells": experiment_cells(one, journal.best) if one else None,
        "decision": decision(one) if one else "",
        "others": [found.number for found in journal.experiments if found.number != number],
        "against": other,
        "files": recipe_diffs(run, number, other),
        "chart": loss_chart(log_points(folder.model)),
        "data": data_facts(run, folder),
        "failures": failures(home, run, folder),
        "changed": changed_items(run, number, other, journal),
        "transcripts": transcripts(folder),
        "jobs": sorted(place.name for place in folder.jobs.glob("*.[0-9]*") if place.is_dir()),
    }


def recipe_diffs(run: RunFolder, number: int, other: int | None) -> list[dict[str, Any]]:
    """Both files of the recipe."""
    own, beside = run.experiment(number), run.experiment(other) if other else None
    return [file_diff(run, own, beside, file.name) for file in (own.script, own.config)]


def file_diff(run: RunFolder, folder: ExperimentFolder, other: ExperimentFolder | None, name: str) -> dict[str, Any]:
    """A file of the recipe, as a difference from another experiment's where there is one: lines with `+`, `-` or ` `."""
    text = shown_text(run.root, folder.root / name)
    if other is None or not (other.root / name).is_file():
        return {"name": name, "lines": [(" ", line) for line in text.splitlines()], "same": False}
    before = shown_text(run.root, other.root / name).splitlines()
    lines = list(difflib.unified_diff(before, text.splitlines(), lineterm="", n=3))[2:]
    return {"name": name, "lines": [(line[:1], line[1:]) for line in lines], "same": not lines}


def shown_text(root: Path, file: Path, longest: int = LONGEST_TEXT, *, end: bool = False) -> str:
    """A text file's beginning, or its end; nothing where there is none. Raises InvalidRequestError for a link out of `root`."""
    if not file.is_file():
        return ""
    check_inside(root, file)
    with open_plain(file, follow=False) as f:
        f.seek(max(0, f.seek(0, 2) - longest) if end else 0)
        return f.read(longest).decode(errors="replace")


def check_inside(root: Path, file: Path) -> None:
    """Raises InvalidRequestError for a file that a link has led out of a folder: one that was received may hold such links."""
    if not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(root)):
        raise InvalidRequestError(f"{file}: leads out of {root}, and is not shown")


def data_facts(run: RunFolder, folder: ExperimentFolder) -> dict[str, Any] | None:
    """What the data gate counted, with a few rows that were trained on; None before it has looked."""
    file = folder.data / "report.json"
    if not file.is_file():
        return None
    check_inside(run.root, folder.data / "data.json")
    dropped = checked(file, read_model(file, dict[str, Any]).get("dropped", {}), dict[str, int])
    rows = read_model(folder.data / "data.json", list[Any]) if (folder.data / "data.json").is_file() else []
    step = max(1, len(rows) // SHOWN_ROWS)
    return {"dropped": dropped, "rows": rows[::step][:SHOWN_ROWS], "count": len(rows)}


def failures(home: Home, run: RunFolder, folder: ExperimentFolder) -> dict[str, Any]:
    """Failed items that agents saw too, with their kind and what was asked; the questions are gone where the benchmark is."""
    if not folder.scores.is_file():
        return {"kinds": {}, "items": []}
    score, setup = shown_score(folder.scores), read_model(run.setup, Setup)
    failed = [(kind, item) for item in score.items if (kind := failure_kind(item, setup.benchmark.max_new_tokens))]
    asked: dict[str, str] = {}
    file = BenchmarkFolder(setup.benchmark, setup.benchmark_root, "").validation
    with contextlib.suppress(OSError, ValueError, LookupError, InvalidRequestError):
        check_inside(home.benchmarks, file)
        asked = {item.id: " ".join(item.fields.values()) for item in read_items(file)}
    return {
        "kinds": Counter(kind for kind, _ in failed),
        "items": [(kind, item, asked.get(item.id, "")) for kind, item in failed[:SHOWN_ITEMS]],
        "all": len(failed),
        "n": len(score.items),
    }


def changed_items(run: RunFolder, number: int, other: int | None, journal: Journal) -> dict[str, Any] | None:
    """Items won and lost against another experiment, 0 for the base model; None where one was not measured."""
    scored = {0, *(one.number for one in journal.experiments if one.score)}
    if number not in scored or (other or 0) not in scored or number == (other or 0):
        return None
    pair = experiment_score(run, number), experiment_score(run, other or 0)
    try:
        found = compare(*pair)
    except ValueError:
        return None
    before = {item.id: item.correct for item in pair[1].items}
    shown = [item for item in pair[0].items if item.id in before and item.correct != before[item.id]]
    return {
        "gain": format_gain_cell(found.gain, found.low, found.high),
        "won": [item.id for item in shown if item.correct],
        "lost": [item.id for item in shown if not item.correct],
    }


def transcripts(folder: ExperimentFolder) -> list[str]:
    """Names of what agents were told and answered."""
    return sorted(file.name for file in folder.answers.glob("*") if file.is_file())


def answer_file(home: Home, name: str, number: int, file: str) -> str:
    """One of them. Raises InvalidRequestError for a name that is none of them."""
    run = find_run(home, name)
    folder = run.experiment(number)
    if file not in transcripts(folder):
        raise InvalidRequestError(f"experiment {number} has no file {file!r}")
    text = shown_text(run.root, folder.answers / file)
    return "\n\n".join(text.splitlines()) if file.endswith(TRANSCRIPT_SUFFIX) else text


def job_log(home: Home, name: str, number: int, job: str) -> str:
    """The end of a job's log. Raises InvalidRequestError for a job that the experiment has not."""
    run = find_run(home, name)
    folder = run.experiment(number)
    if job not in {place.name for place in folder.jobs.glob("*.[0-9]*")}:
        raise InvalidRequestError(f"experiment {number} has no job {job!r}")
    return shown_text(run.root, folder.jobs / job / "log.txt", TAIL, end=True)


def report_page(home: Home, name: str) -> dict[str, Any]:
    """The report of a finished run. Raises InvalidRequestError before there is one."""
    run = find_run(home, name)
    if not run.report.is_file():
        raise InvalidRequestError(f"run {name!r} has no report yet: it is {run_status(run).state}")
    return {"run": run.id, "html": markdown_html(shown_text(run.root, run.report))}


def markdown_html(text: str) -> str:
    """Markdown as HTML, in which markup of the text is text."""
    from markdown_it import MarkdownIt

    return str(MarkdownIt("commonmark", {"html": False}).enable("table").render(text))


def picture(root: Path, file: str) -> Path:
    """A picture that the report of a run or a matrix shows. Raises InvalidRequestError for any other file."""
    found = {place.name: place for place in (root / "report").glob("*.png") if not place.is_symlink()}
    if file not in found:
        raise InvalidRequestError(f"{root.name!r} has no picture {file!r}")
    check_inside(root, found[file])
    return found[file]


def batches_page(home: Home) -> dict[str, Any]:
    """All batches, newest first."""
    return {"names": [folder.id for folder in all_batches(home)]}


def batch_page(settings: Settings, name: str) -> dict[str, Any]:
    """The runs of a batch and what they brought. Raises InvalidRequestError when there is no such batch."""
    folder = find_batch(settings.home, name)
    found = batch_status(folder, settings)
    compared = compare_cells(settings.home, found)
    cells = [((cell.benchmark, cell.model, cell.scenario), cell_texts(cell)) for cell in compared]
    failures = [text for cell in compared for text in cell.failures]
    return {"batch": folder.id, "tasks": found, "columns": COLUMNS, "cells": cells, "failures": failures}


def compare_page(home: Home, names: Sequence[str]) -> dict[str, Any]:
    """Runs side by side. Raises InvalidRequestError for fewer than two."""
    if len(names) < 2:
        raise InvalidRequestError("mark at least two runs in the list, then compare them")
    return compare_runs([find_run(home, name) for name in dict.fromkeys(names)])
