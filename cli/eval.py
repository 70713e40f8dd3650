"""`tuneloop eval`: measure any model on any benchmarks, without a run; compare two."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from tuneloop.cli.engines import bar
from tuneloop.core.errors import SetupError
from tuneloop.core.layout import Home
from tuneloop.core.run import SandboxKind
from tuneloop.core.settings import Settings, load_settings, read_dotenv
from tuneloop.tools.runs.spec import locate, sandbox, split_names

if TYPE_CHECKING:
    from tuneloop.tools.evaluating.record import Keeper
    from tuneloop.tools.evaluation import Weights

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
@click.option("--benchmark", "benchmarks", multiple=True, help="What to measure; repeat it or separate with commas.")
@click.option("--against", metavar="MODEL2", help="A second model on the same items, and a paired test.")
@click.option("--base-model", help="The model below an adapter, where the adapter does not say.")
@click.option("--endpoint", metavar="URL", help="MODEL is a name at this endpoint; its key: TUNELOOP_EVAL_API_KEY.")
@click.option("--split", type=click.Choice(("validation", "test")), default="validation", show_default=True)
@click.option("--read-sealed-test", is_flag=True, help="Yes, spend a reading of the sealed test; it is noted for ever.")
@click.option("--limit", type=POSITIVE, help="Items of each benchmark, chosen by hash.  [default: all]")
@click.option("--max-out-len", type=POSITIVE, help="Tokens of an answer, instead of the benchmark's own.")
@click.option("--max-seq-len", type=POSITIVE, help="Tokens of prompt and answer together.  [default: the model's]")
@click.option("--temperature", type=click.FloatRange(0, 2), help="Instead of the benchmark's own.")
@click.option("--top-p", type=click.FloatRange(0, 1, min_open=True), help="Instead of the benchmark's own.")
@click.option("--batch-size", type=POSITIVE, help="Prompts answered together.  [default: by device]")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Of answers that are drawn.")
@click.option("--name", help="What results call MODEL.  [default: from MODEL]")
@click.option("--sandbox", "kind", type=click.Choice(get_args(SandboxKind)), help="Where jobs run.  [default: auto]")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the result tree.  [default: in FT_FILE_PATH]")
@click.option("--record", type=click.Path(path_type=Path), hidden=True, help="Folder in which others watch.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(model: str | None, named: str | None, benchmarks: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Measure MODEL with OpenCompass: value, 95 % interval, parse rate; the seeds' CSV tree and a Parquet row an item."""
    settings, told = load_settings(), variables()
    if given["record"]:  # asked for by the server `evaluation`: the whole question stands in the options
        told = {name: value for name, value in told.items() if name == "NUM_GPUS"}
    if model and named:
        raise SetupError(f"two models, {model} and {named}: a second one is --against")
    names = split_names(benchmarks) or wanted(settings)
    if names is None:
        click.echo("no benchmark is asked for (BENCHMARK_DATASETS is empty): nothing was measured")
        return
    word = model or named or told.get("ADAPTER_PATH") or told.get("BASE_MODEL")
    if not word:
        raise SetupError("no model: right is tuneloop eval MODEL, or ADAPTER_PATH or BASE_MODEL in the environment")
    if given["split"] == "test" and not given["read_sealed_test"]:
        raise SetupError("--split test spends a reading of the sealed test: add --read-sealed-test if that is meant")
    given |= {
        "base_model": given["base_model"] or told.get("BASE_MODEL"),
        "name": given["name"] or told.get("MODEL_ABBR"),
    }
    given |= numbers(given, told)
    from tuneloop.tools.evaluating.record import kept  # engines come with it, and help needs none of them

    with kept(given["record"]) as keeper:
        run(word, names, settings, given, keeper, as_json=as_json, gpus=told.get("NUM_GPUS", ""))


def variables() -> dict[str, str]:
    """What the environment says, and `.env` where it says nothing."""
    return {name: value for name, value in {**read_dotenv(Path(".env")), **os.environ}.items() if value.strip()}


def wanted(settings: Settings) -> list[str] | None:
    """Benchmarks of the environment; None where its list is there and empty. Raises SetupError where there is none."""
    lists = (settings.benchmark_list, settings.target_benchmarks)
    given = next((found for found in lists if found is not None), None)
    if given == () or not os.environ.get("BENCHMARK_DATASETS", "-").strip():  # an empty list, as the seeds join it
        return None
    if given or settings.target_benchmark:
        return list(given or (str(settings.target_benchmark),))
    raise SetupError("no benchmark: right is --benchmark NAME (tuneloop list benchmarks), or BENCHMARK_DATASETS")


def numbers(given: Mapping[str, Any], told: Mapping[str, str]) -> dict[str, Any]:
    """Decoding from options, else from the seeds' variables. Raises SetupError for what is no number."""
    found = {}
    parameters = {p.name: p for p in command.params}
    for name, variable in SEEDS.items():
        if given[name] is not None or variable not in told:
            continue
        try:
            found[name] = parameters[name].type.convert(told[variable], parameters[name], None)
        except click.BadParameter as e:
            raise SetupError(f"{variable}={told[variable]!r}: {e.message}") from e
    return found


def run(
    word: str,
    names: Sequence[str],
    settings: Settings,
    given: Mapping[str, Any],
    keeper: Keeper,
    *,
    as_json: bool,
    gpus: str,
) -> None:
    """Look at everything, measure, show. Nothing is loaded before all of it was looked at."""
    from tuneloop.cli import eval_views  # engines and catalogs are heavy, and help needs none of them
    from tuneloop.tools.benchmarks import names as registered
    from tuneloop.tools.evaluating import Decoding, fetched, find_subject, measure, sets_of, whole_names
    from tuneloop.tools.evaluating.tree import write_tree
    from tuneloop.tools.reads import note_reading

    whole = whole_names([locate(name, registered()) for name in names], settings)
    decoding = Decoding(**{name: given[name] for name in SEEDS})
    with bar("looking at the model") as shown:
        say = keeper.watched(shown, accepted=False)
        of = {"base": given["base_model"], "endpoint": given["endpoint"]}
        subjects = [find_subject(word, settings, say, **of, name=given["name"] or "")]
        if given["against"]:
            subjects.append(find_subject(given["against"], settings, say, base=given["base_model"]))
        if len({one.name for one in subjects}) < len(subjects):
            raise SetupError(f"both models are called {subjects[0].name}: give the first another --name")
        folders = fetched(whole, settings)
        sets = sets_of(folders, given["split"], given["limit"], decoding)
    if given["split"] == "test":
        for one in subjects:
            reader = f"eval {one.name} {time.strftime('%Y%m%d-%H%M%S')}"
            note_reading(settings.home, folders, reader, run_of(settings.home, one.weights))
    device = computes_on(gpus)
    how = {"decoding": decoding, "seed": given["seed"], "sandbox": given["kind"] or sandbox(settings.env_type)}
    found = []
    for one in subjects:
        with bar(one.name) as shown:
            say = keeper.watched(shown, accepted=True)
            found.append(measure(one, sets, settings, say, device=device, **how))
    place = write_tree(Path(given["out"] or found[0].place / "benchmark_results").absolute(), found)
    keeper.keep(found[0], place)
    compared = eval_views.compared(found)
    if compared:
        eval_views.draw(place / "comparison.png", found)
    if as_json:
        click.echo(json.dumps(eval_views.facts(found, compared, place), indent=1))
    else:
        eval_views.show(found, compared, place)


def run_of(home: Home, weights: Weights | None) -> str:
    """The run in whose folder the weights lie; "" where they are no run's."""
    runs = home.runs.resolve()
    places = weights.places if weights else ()
    return next(
        (place.relative_to(runs).parts[0] for place in places if place.is_relative_to(runs) and place != runs), ""
    )


def computes_on(gpus: str) -> str:
    """Cpu or cuda; NUM_GPUS=0 is the processor. Raises SetupError for what is no number."""
    from tuneloop.tools.device import find_device

    if gpus and not gpus.isdecimal():
        raise SetupError(f"NUM_GPUS={gpus!r}: right is a number, 0 for the processor")
    device = "cpu" if gpus == "0" else find_device()
    if gpus not in ("", "0") and device == "cpu":
        click.echo(f"note: NUM_GPUS={gpus}, and there is no GPU here: the processor answers", err=True)
    return device
