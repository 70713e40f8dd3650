"""Run the code of replies, or verifiers on them, in a sandbox of their own, and read what came out: a stranger's files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuneloop.core.errors import RecipeError
from tuneloop.core.files import digest, write_atomic, write_json, write_lines
from tuneloop.core.job import Command, Limits
from tuneloop.core.layout import job_input_file
from tuneloop.core.untrusted import read_untrusted_json
from tuneloop.tools.engines import Engine
from tuneloop.tools.evaluation.item_sets import ANSWERS, TYPED, ItemSet, Pair
from tuneloop.tools.jobs.machine import ENGINES
from tuneloop.tools.scoring import code_results

RESULTS = "results.json"
SLACK, TIMES = 10.0, 4.0  # as the harness has them
BEGIN = 60.0
# The kernel counts threads: an answer that makes too many is ended by the harness before they end all answers.
TASKS = 8192
Row = dict[str, Any]


def verification_command(
    engine: Engine, rows: Mapping[Pair, Row], sets: Mapping[str, ItemSet], out: Path, limits: Limits
) -> Command:
    """The job that asks the verifiers of sets what the replies in `rows` are worth; all run in `engine`.

    It sees answers, items and verifiers, and no model. A reply without an answer is worth nothing and is not asked about.
    """
    place = job_input_file(out.parent, out.name)
    asked = [verifier_requests(place, pair, row, sets[pair[1]]) for pair, row in rows.items()]
    return _command(engine, rows, sets, out, limits, "run_verifier.py", {"sets": asked}, ("-B",))


def verifier_requests(place: Path, pair: Pair, row: Row, items: ItemSet) -> Row:
    """A model's answers on a set as the job has them; writes them and the verifier into `place`."""
    replies = {item["id"]: item["prediction"] for item in row["items"]}
    answers = {item.id: code_results.verified_answer(replies[item.id]) for item in items.items}
    verifier, file = place / f"{pair[1]}.py", place / f"{pair[0]}.{pair[1]}.jsonl"
    write_atomic(verifier, items.benchmark.verifier)
    lines = (
        {"id": i.id, "answer": answers[i.id], "right": i.answer, **i.calls.model_dump(mode="json")}
        for i in items.items
        if i.calls and answers[i.id]
    )
    write_lines(file, lines)
    return {"model": pair[0], "set": pair[1], "verifier": str(verifier), "items": str(file)}


def execution_command(
    engine: Engine, rows: Mapping[Pair, Row], sets: Mapping[str, ItemSet], out: Path, limits: Limits
) -> Command:
    """The job that runs the code of all replies in `rows` and leaves `out/results.json`.

    It sees code and inputs, never what is right, and no model. Replies without code are not run.
    """
    place = job_input_file(out.parent, out.name)
    asked = [code_requests(place, pair, row, sets[pair[1]]) for pair, row in rows.items()]
    return _command(
        engine, rows, sets, out, limits, "run_answers.py", {"sets": asked, "typed": str(TYPED)}, ("-S", "-B")
    )


def _command(
    engine: Engine,
    rows: Mapping[Pair, Row],
    sets: Mapping[str, ItemSet],
    out: Path,
    limits: Limits,
    script: str,
    asked: Row,
    options: tuple[str, ...],
) -> Command:
    """Writes the job's input beside `out`. The bound of its time follows from the items."""
    seconds = max(sets[name].benchmark.seconds for _, name in rows)
    job = {"out": str(out), "seconds": seconds, **asked}
    file = job_input_file(out.parent, out.name) / "job.json"
    write_json(file, job)
    out.mkdir(parents=True, exist_ok=True)
    most = BEGIN + sum(len(row["items"]) for row in rows.values()) * (TIMES * seconds + SLACK)
    contents = [Path(one[name]).read_bytes() for one in asked["sets"] for name in ("items", "verifier") if name in one]
    return Command(
        argv=(str(engine.python), *options, str(ENGINES / "answers" / script), str(file)),
        cwd=str(out),
        env={"PYTHONPATH": str(ENGINES), "PYTHONNOUSERSITE": "1", "HOME": str(out), "CUDA_VISIBLE_DEVICES": ""},
        read=(*engine.readable, *map(str, ANSWERS), str(file.parent)),
        write=(str(out),),
        generated=True,
        limits=limits.model_copy(
            update={"seconds": min(most, limits.seconds or most), "processes": max(TASKS, limits.processes or 0)}
        ),
        key=digest(json.dumps(job), engine.identity, *contents, *(path.read_bytes() for path in ANSWERS)),
    )


def code_requests(place: Path, pair: Pair, row: Row, items: ItemSet) -> Row:
    """A model's replies on a set as the job has them; writes their code and inputs into `place`."""
    replies = {item["id"]: item["prediction"] for item in row["items"]}
    code = {item.id: code_results.reply_code(item, replies[item.id]) for item in items.items}
    file = place / f"{pair[0]}.{pair[1]}.jsonl"
    lines = (
        {"id": i.id, **i.calls.model_dump(mode="json", exclude={"before"}), "code": code[i.id]}
        for i in items.items
        if i.calls and code[i.id]
    )
    write_lines(file, lines)
    return {"model": pair[0], "set": pair[1], "items": str(file)}


def add_code_results(out: Path, rows: Mapping[Pair, Row]) -> dict[Pair, Row]:
    """The replies with what their code gave; one without code gave nothing.

    Raises RecipeError when the job left no results, or others than those of these replies.
    """
    try:
        found = {(one["model"], one["set"]): one["items"] for one in read_untrusted_json(out / RESULTS)["results"]}
        return {pair: {**row, "items": join_results(row["items"], found[pair])} for pair, row in rows.items()}
    except (FileNotFoundError, ValueError, LookupError, TypeError, AttributeError) as e:
        raise RecipeError(f"running the answers left no results that can be read: {e!r}"[:500], culprit="config") from e


def join_results(replies: list[Row], found: list[Row]) -> list[Row]:
    """By id. Raises ValueError or TypeError for a result that nobody asked for, two of one item, or one that is none."""
    results = {one["id"]: one["results"] for one in found}
    known = {reply["id"] for reply in replies}
    for one in results.values():
        code_results.check_results(one)
    if len(results) != len(found) or results.keys() - known:
        raise ValueError("results of other items")
    return [{"id": r["id"], "prediction": r["prediction"], "results": results.get(r["id"])} for r in replies]
