"""`tuneloop eval`: measure any model on any benchmarks, without a run; compare two."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click
from rich.table import Table
from rich.text import Text

from tuneloop.cli.notes import OWN_PROMPT
from tuneloop.cli.terminal import progress_bar, table_console
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.formatting import format_interval, format_p_value, printable
from tuneloop.core.layout import Home
from tuneloop.core.run_spec import SandboxKind
from tuneloop.core.score import Score
from tuneloop.core.settings import Settings, load_settings, read_dotenv
from tuneloop.tools.evaluation.standalone.measure import Measurement
from tuneloop.tools.evaluation.standalone.results import measurement_facts, paired_difference
from tuneloop.tools.runs.spec import locate, sandbox, split_names

if TYPE_CHECKING:
    from tuneloop.tools.benchmark_items.folder import BenchmarkFolder
    from tuneloop.tools.evaluation.item_sets import ModelWeights
    from tuneloop.tools.evaluation.standalone.record import RecordWriter
    from tuneloop.tools.evaluation.standalone.subjects import Subject
    from tuneloop.tools.hub.models import Progress


# What `tuneloop eval` shows: a table, bars with intervals, a comparison, a plot, JSON.

WIDTH = 20
COLOURS = ("#2a7f3f", "#888888")


def comparison_rows(found: Sequence[Measurement]) -> list[dict[str, Any]]:
    """The first against the second, by benchmark: points gained, items won and lost, exact p-value both ways."""
    if len(found) < 2:
        return []
    return [paired_difference(found[0].scores[name], found[1].scores[name]) for name in found[0].scores]


def json_facts(found: Sequence[Measurement], rows: list[dict[str, Any]], place: Path) -> dict[str, Any]:
    """For scripts."""
    return {"models": [measurement_facts(one) for one in found], "compared": rows, "out": str(place)}


def show_results(found: Sequence[Measurement], rows: list[dict[str, Any]], place: Path) -> None:
    """For people."""
    console = table_console()
    console.print(scores_table(found))
    if rows:
        console.print(comparison_table(found, rows))
    for note in remark_lines(found):
        console.print(Text(f"note: {printable(note)}"))
    console.print(Text(f"({place})"), soft_wrap=True)


def scores_table(found: Sequence[Measurement]) -> Table:
    """A line a model and benchmark."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("benchmark", "model", "metric"):
        table.add_column(name, no_wrap=True)
    for name in ("value (95 %)", "n", "parsed"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("0 - 100", no_wrap=True)
    table.add_column("also")
    for name in found[0].scores:
        for one in found:
            score = one.scores[name]
            plain = (name, one.subject.name, score.metric, format_interval(score.value, score.low, score.high))
            last = (str(score.n), f"{score.parsed:.0f} %", score_bar(score), further_metrics(score))
            table.add_row(*(Text(printable(cell)) for cell in (*plain, *last)))
    return table


def score_bar(score: Score) -> str:
    """The value as a bar, its interval as dots."""
    cells = [" "] * WIDTH
    for i in range(WIDTH):
        at = 100 * (i + 0.5) / WIDTH
        cells[i] = "█" if at <= score.value else "·" if at <= score.high else " "
        cells[i] = "▒" if score.low <= at <= score.value else cells[i]
    return "".join(cells).rstrip()


def further_metrics(score: Score) -> str:
    """Further metrics, and what the judge decided."""
    found = [f"{name} {value:.3g}" for name, value in score.metrics.items()]
    if judged := score.judged:
        found.append(f"judge: {judged.correct} of {judged.asked} right, {judged.unknown} unknown")
    return ", ".join(found)


def comparison_table(found: Sequence[Measurement], rows: list[dict[str, Any]]) -> Table:
    """The first model against the second."""
    title = f"{found[0].subject.name} against {found[1].subject.name}, the same items"
    table = Table(box=None, padding=(0, 2, 0, 0), title=title, title_justify="left", title_style="bold")
    for name in ("benchmark", "points (95 %)", "won", "lost", "p", ""):
        table.add_column(name, justify="left" if name in ("benchmark", "") else "right", no_wrap=True)
    for row in rows:
        table.add_row(
            row["benchmark"],
            f"{row['gain']:+.1f} ({row['low']:+.0f} to {row['high']:+.0f})",
            str(row["wins"]),
            str(row["losses"]),
            format_p_value(row["p_value"]),
            row["verdict"],
        )
    return table


def remark_lines(found: Sequence[Measurement]) -> list[str]:
    """What one should know of the numbers."""
    said = [note for one in found for note in one.notes]
    for one in found:
        for name, score in one.scores.items():
            if failed := score.scorer_failed():
                said.append(f"{one.subject.name} on {name}: {failed}")
    return list(dict.fromkeys(said))


def draw_plot(path: Path, found: Sequence[Measurement]) -> None:
    """All values with their intervals as PNG and SVG."""
    from matplotlib.figure import Figure  # takes half a second, needed only for comparisons

    names = list(found[0].scores)
    figure = Figure(figsize=(8, 1.2 + 0.7 * len(names)), layout="constrained")
    axes = figure.add_subplot()
    for number, (one, colour) in enumerate(zip(found, COLOURS, strict=False)):
        values = [one.scores[name] for name in names]
        around = [[s.value - s.low for s in values], [s.high - s.value for s in values]]
        places = [i + 0.2 * (number - 0.5) for i in range(len(names))]
        points = [s.value for s in values]
        axes.errorbar(points, places, xerr=around, fmt="o", capsize=4, color=colour, label=one.subject.name)
    axes.set(yticks=range(len(names)), yticklabels=names, xlim=(0, 100), xlabel="value, 95 % intervals")
    axes.invert_yaxis()
    axes.grid(visible=True, axis="x", alpha=0.25)
    axes.legend(loc="best", fontsize=8)
    figure.savefig(path, dpi=120, metadata={"Software": None})
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})


EXAMPLES = """\b
Examples:
  tuneloop eval tiny --benchmark wordproblems
  tuneloop eval ./my_adapter --base-model ./base --benchmark gsm8k,mmlu --limit 200
  tuneloop eval RUN_FOLDER/best --against ./base --benchmark gsm8k --json
  tuneloop eval qwen3 --endpoint http://localhost:8000/v1 --benchmark gsm8k
  tuneloop eval replies.jsonl --benchmark wordproblems

\b
MODEL is a folder (whole weights, or an adapter), a registered name, a hub id, NAME@URL of an OpenAI-compatible
endpoint, or a .jsonl file of replies. Without MODEL the seeds' variables are read: ADAPTER_PATH, BASE_MODEL, MODEL_ABBR,
BENCHMARK_DATASETS, MAX_OUT_LEN, MAX_SEQ_LEN, BATCH_SIZE, TEMPERATURE, TOP_P, NUM_GPUS. Docs: docs/evaluation.md.
"""
POSITIVE = click.IntRange(min=1)
SEEDS = {
    "max_out_len": "MAX_OUT_LEN",
    "max_seq_len": "MAX_SEQ_LEN",
    "batch_size": "BATCH_SIZE",
    "temperature": "TEMPERATURE",
    "top_p": "TOP_P",
}


@click.command(epilog=EXAMPLES)
@click.argument("model", required=False)
@click.option("--model", "named", metavar="NAME", help="MODEL, as an option.")
@click.option(
    "--benchmark",
    "benchmarks",
    multiple=True,
    help="What to measure; repeat it or separate with commas.  [default: BENCHMARK_DATASETS, else FT_TARGET_BENCHMARK]",
)
@click.option("--against", metavar="MODEL2", help="A second model on the same items, and a paired test.")
@click.option("--base-model", help="The model below an adapter, where the adapter does not say.")
@click.option("--endpoint", metavar="URL", help="MODEL is a name at this endpoint; its key: TUNELOOP_EVAL_API_KEY.")
@click.option("--split", type=click.Choice(("validation", "test")), default="validation", show_default=True)
@click.option("--read-sealed-test", is_flag=True, help="Yes, spend a reading of the sealed test; it is noted for ever.")
@click.option("--limit", type=POSITIVE, help="Items of each benchmark, chosen by hash.  [default: all]")
@click.option("--max-out-len", type=POSITIVE, help="Tokens of an answer.  [default: the benchmark's own]")
@click.option("--max-seq-len", type=POSITIVE, help="Tokens of prompt and answer together.  [default: the model's]")
@click.option("--temperature", type=click.FloatRange(0, 2), help="Of answers.  [default: the benchmark's own]")
@click.option("--top-p", type=click.FloatRange(0, 1, min_open=True), help="Of answers.  [default: the benchmark's own]")
@click.option("--batch-size", type=POSITIVE, help="Prompts answered together.  [default: by device]")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Of answers that are drawn.")
@click.option("--name", help="What results call MODEL.  [default: from MODEL]")
@click.option("--sandbox", "kind", type=click.Choice(get_args(SandboxKind)), help="Where jobs run.  [default: auto]")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the result tree.  [default: in FT_FILE_PATH]")
@click.option("--record", type=click.Path(path_type=Path), hidden=True, help="Folder in which others watch.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(model: str | None, named: str | None, benchmarks: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Measure MODEL with OpenCompass: value, 95 % interval, parse rate; the seeds' CSV tree and a Parquet row an item."""
    settings, told = load_settings(), environment_variables()
    if given["record"]:  # asked for by the server `evaluation`: the whole question stands in the options
        told = {name: value for name, value in told.items() if name == "NUM_GPUS"}
    if settings.custom_prompt:
        raise InvalidRequestError(f"CUSTOM_PROMPT: {OWN_PROMPT}")
    if model and named:
        raise InvalidRequestError(f"two models, {model} and {named}: a second one is --against")
    names = split_names(benchmarks) or default_benchmarks(settings)
    if names is None:
        click.echo("no benchmark is asked for (BENCHMARK_DATASETS is empty): nothing was measured")
        return
    word = model or named or told.get("ADAPTER_PATH") or told.get("BASE_MODEL")
    if not word:
        raise InvalidRequestError(
            "no model: right is tuneloop eval MODEL, or ADAPTER_PATH or BASE_MODEL in the environment"
        )
    if given["split"] == "test" and not given["read_sealed_test"]:
        raise InvalidRequestError(
            "--split test spends a reading of the sealed test: add --read-sealed-test if that is meant"
        )
    given |= {
        "base_model": given["base_model"] or told.get("BASE_MODEL"),
        "name": given["name"] or told.get("MODEL_ABBR"),
    }
    given |= decoding_options(given, told)
    from tuneloop.tools.evaluation.standalone.record import (
        finishing_record,  # engines come with it, and help needs none of them
    )

    with finishing_record(given["record"]) as writer:
        run_evaluation(word, names, settings, given, writer, as_json=as_json, gpus=told.get("NUM_GPUS", ""))


def environment_variables() -> dict[str, str]:
    """What the environment says, and `.env` where it says nothing."""
    return {name: value for name, value in {**read_dotenv(Path(".env")), **os.environ}.items() if value.strip()}


def default_benchmarks(settings: Settings) -> list[str] | None:
    """Benchmarks of the environment; None where its list is there and empty. Raises InvalidRequestError where there is none."""
    lists = (settings.benchmark_list, settings.target_benchmarks)
    given = next((found for found in lists if found is not None), None)
    if given == () or not os.environ.get("BENCHMARK_DATASETS", "-").strip():  # an empty list, as the seeds join it
        return None
    if given or settings.target_benchmark:
        return list(given or (str(settings.target_benchmark),))
    raise InvalidRequestError(
        "no benchmark: right is --benchmark NAME (tuneloop list benchmarks), or BENCHMARK_DATASETS"
    )


def decoding_options(given: Mapping[str, Any], told: Mapping[str, str]) -> dict[str, Any]:
    """Decoding from options, else from the seeds' variables. Raises InvalidRequestError for what is no number."""
    found = {}
    parameters = {p.name: p for p in command.params}
    for name, variable in SEEDS.items():
        if given[name] is not None or variable not in told:
            continue
        try:
            found[name] = parameters[name].type.convert(told[variable], parameters[name], None)
        except click.BadParameter as e:
            raise InvalidRequestError(f"{variable}={told[variable]!r}: {e.message}") from e
    return found


def run_evaluation(
    word: str,
    names: Sequence[str],
    settings: Settings,
    given: Mapping[str, Any],
    writer: RecordWriter,
    *,
    as_json: bool,
    gpus: str,
) -> None:
    """Look at everything, measure, show. Nothing is loaded before all of it was looked at."""
    # engines and catalogs are heavy, and help needs none of them
    from tuneloop.tools.benchmark_items.resolve import registered_names as registered
    from tuneloop.tools.evaluation.standalone.measure import (
        Decoding,
        expand_families,
        fetch_benchmarks,
        measure,
        sets_of,
    )
    from tuneloop.tools.evaluation.standalone.results import write_tree

    whole = expand_families([locate(name, registered()) for name in names], settings)
    decoding = Decoding(**{name: given[name] for name in SEEDS})
    with progress_bar("looking at the model") as shown:
        subjects = find_subjects(word, settings, given, writer.watched(shown, accepted=False))
        folders = fetch_benchmarks(whole, settings)
        sets = sets_of(folders, given["split"], given["limit"], decoding)
    if given["split"] == "test":
        log_test_readers(subjects, folders, settings.home)
    device = device_of(gpus)
    how = {"decoding": decoding, "seed": given["seed"], "sandbox": given["kind"] or sandbox(settings.env_type)}
    found = []
    for one in subjects:
        with progress_bar(one.name) as shown:
            say = writer.watched(shown, accepted=True)
            found.append(measure(one, sets, settings, say, device=device, **how))
    place = write_tree(Path(given["out"] or found[0].place / "benchmark_results").absolute(), found)
    writer.keep(found[0], place)
    show_outcome(found, place, as_json=as_json)


def find_subjects(word: str, settings: Settings, given: Mapping[str, Any], say: Progress) -> list[Subject]:
    """The model, and the one that it is compared with. Raises InvalidRequestError."""
    from tuneloop.tools.evaluation.standalone.subjects import find_subject

    of = {"base": given["base_model"], "endpoint": given["endpoint"]}
    found = [find_subject(word, settings, say, **of, name=given["name"] or "")]
    if given["against"]:
        found.append(find_subject(given["against"], settings, say, base=given["base_model"]))
    if len({one.name for one in found}) < len(found):
        raise InvalidRequestError(f"both models are called {found[0].name}: give the first another --name")
    return found


def log_test_readers(subjects: Sequence[Subject], folders: Sequence[BenchmarkFolder], home: Home) -> None:
    """Write down that each model is about to be measured on the sealed test."""
    from tuneloop.tools.evaluation.test_access_log import log_external_access

    for one in subjects:
        reader = f"eval {one.name} {time.strftime('%Y%m%d-%H%M%S')}"
        log_external_access(home, folders, reader, run_of(home, one.weights))


def show_outcome(found: Sequence[Measurement], place: Path, *, as_json: bool) -> None:
    """Scores and, of two models, their comparison; its plot is written into `place`."""
    compared = comparison_rows(found)
    if compared:
        draw_plot(place / "comparison.png", found)
    if as_json:
        click.echo(json.dumps(json_facts(found, compared, place), indent=1))
    else:
        show_results(found, compared, place)


def run_of(home: Home, weights: ModelWeights | None) -> str:
    """The run in whose folder the weights lie; "" where they are no run's."""
    runs = home.runs.resolve()
    places = weights.places if weights else ()
    return next(
        (place.relative_to(runs).parts[0] for place in places if place.is_relative_to(runs) and place != runs), ""
    )


def device_of(gpus: str) -> str:
    """Cpu or cuda; NUM_GPUS=0 is the processor. Raises InvalidRequestError for what is no number."""
    from tuneloop.tools.jobs.machine import find_device

    if gpus and not gpus.isdecimal():
        raise InvalidRequestError(f"NUM_GPUS={gpus!r}: right is a number, 0 for the processor")
    device = "cpu" if gpus == "0" else find_device()
    if gpus not in ("", "0") and device == "cpu":
        click.echo(f"note: NUM_GPUS={gpus}, and there is no GPU here: the processor answers", err=True)
    return device
