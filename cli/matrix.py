"""`tuneloop matrix`: what a chat template does to training and to evaluation, for a task, with a report."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from tuneloop.cli.main import ExampleGroup
from tuneloop.cli.terminal import progress_bar
from tuneloop.core.files import absolute_path
from tuneloop.core.formatting import printable
from tuneloop.core.run_spec import SandboxKind
from tuneloop.core.settings import Settings, load_settings

if TYPE_CHECKING:
    from tuneloop.tools.matrix.experiments import Experiment
    from tuneloop.tools.matrix.run import Request
    from tuneloop.tools.training.tokens import Format, RowTokens

EXAMPLES = """\b
Examples:
  tuneloop matrix --task wordproblems --base-model tiny
  tuneloop matrix --task gsm8k --experiments sft_chat_template sft_no_chat_mask_q --seeds 3
  tuneloop matrix --task gsm8k --only-eval
  tuneloop matrix --task gsm8k --only-report
  tuneloop matrix train sft --task gsm8k --use-chat-template --output-dir results/gsm8k/models/sft_chat_template
  tuneloop matrix train grpo --task gsm8k --use-chat-template --output-dir results/gsm8k/models/grpo_chat_template
  tuneloop matrix eval --task gsm8k --model-path results/gsm8k/models/sft_chat_template --output-dir eval/mine
  tuneloop matrix report --results-dirs results/gsm8k/eval/* --output-dir results/gsm8k/report
  tuneloop matrix show-tokens --task wordproblems --base-model tiny

\b
Experiments: sft_chat_template, grpo_chat_template, sft_no_chat_full_loss, sft_no_chat_mask_q, grpo_no_chat; each is
evaluated with and without the chat template. Killed or stopped, the same command goes on where it was. Docs: docs/matrix.md.
"""
EMBEDDED = {"wordproblems": "tiny"}
OF_THE_SEED = "Qwen/Qwen3-4B"


def spread_values(words: Sequence[str], names: Sequence[str]) -> list[str]:
    """`--experiments a b` as `--experiments a --experiments b`, for the options `names`."""
    found: list[str] = []
    option, several = "", False
    for word in words:
        if word.startswith("-"):
            name = word.replace("_", "-")
            option, several = (word, False) if name in names else ("", False)
            found.append(word)
            continue
        found += [option, word] if option and several else [word]
        several = True
    return found


class SpreadCommand(click.Command):
    """A command whose repeatable options take several values each."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does."""
        names = [name for option in self.params if getattr(option, "multiple", False) for name in option.opts]
        return super().parse_args(ctx, spread_values(args, names))


class MatrixCommands(ExampleGroup):
    """`tuneloop matrix --task NAME` is `tuneloop matrix run --task NAME`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does; what begins with an option of no command is meant for the whole matrix."""
        own = bool(args) and args[0].startswith("-") and args[0] not in ctx.help_option_names
        return super().parse_args(ctx, ["run", *args] if own else args)


def chosen(ctx: click.Context, _option: click.Parameter, names: tuple[str, ...]) -> list[Experiment]:
    """The experiments of these names, with every seed."""
    from tuneloop.tools.matrix.experiments import choose_experiments

    return choose_experiments(names, ctx.params.get("seeds") or 1)


def json_object(_ctx: click.Context, option: click.Parameter, text: str | None) -> dict[str, Any]:
    """Arguments of the chat template. Raises click.BadParameter."""
    try:
        found = json.loads(text or "{}")
    except ValueError as e:
        raise click.BadParameter(f"is no JSON: {e}", param=option) from e
    if not isinstance(found, dict):
        raise click.BadParameter("is no JSON object; right is '{\"enable_thinking\": false}'", param=option)
    return found


FOLDER = click.Path(path_type=Path)
TASK = click.option(
    "--task", required=True, help="A benchmark: a name, a folder, rg:TASK; or FILE.py with a Task class."
)
CONFIG = click.option(
    "--config",
    type=FOLDER,
    metavar="DIR",
    help="Folder with sft.yaml, grpo.yaml, eval.yaml.  [default: the shipped ones]",
)
MODEL = click.option(
    "--base-model", help="What is trained.  [default: FT_BASE_MODEL; tiny for wordproblems; else Qwen/Qwen3-4B]"
)
OPTIONS = click.option(
    "--extra-chat-template-kwargs", "options", callback=json_object, metavar="JSON",
    help="Arguments of the chat template, e.g. '{\"enable_thinking\": false}'.",
)  # fmt: skip
SANDBOX = click.option("--sandbox", type=click.Choice(get_args(SandboxKind)), default="auto", help="Where jobs run.")
TEMPLATE = click.option("--use-chat-template", is_flag=True, help="Put prompts into the model's chat template.")
EXPERIMENTS = click.option(
    "--experiments", multiple=True, callback=chosen, metavar="NAME ...", help="Which trainings.  [default: all]"
)


@click.group(cls=MatrixCommands, epilog=EXAMPLES, subcommand_metavar="| COMMAND [ARGS]...")
def command() -> None:
    """Trainings with and without chat template, each evaluated with and without it, and what of it makes a difference."""


@command.command(
    cls=SpreadCommand,
    epilog="\b\nExamples:\n  tuneloop matrix --task gsm8k --seeds 3 --parallel 2\n  tuneloop matrix run --task gsm8k --only-eval",
)
@TASK
@click.option("--seeds", type=click.IntRange(1, 20), default=1, is_eager=True, help="Trainings of each experiment.")
@EXPERIMENTS
@click.option("--only-eval", is_flag=True, help="Train nothing: evaluate the models that are there, then report.")
@click.option("--only-report", is_flag=True, help="Train and evaluate nothing: report on what is there.")
@CONFIG
@MODEL
@OPTIONS
@click.option("--output-dir", type=FOLDER, default=Path("results"), help="Below it <task>/ with models, eval, report.")
@click.option("--parallel", type=click.IntRange(1, 64), default=1, help="Trainings side by side.")
@SANDBOX
def run(task: str, *, only_eval: bool, only_report: bool, **given: Any) -> None:
    """Train, evaluate and report; what is there already is not made again."""
    from tuneloop.tools.matrix import run as matrix
    from tuneloop.tools.matrix.tasks import load_task

    settings = load_settings()
    request = request_of(task, settings, given)
    if only_report:
        click.echo(matrix.report(request))
        return
    with progress_bar("matrix") as say:
        if only_eval:
            matrix.check_models(request)
            matrix.evaluate(request, load_task(task, settings, say, request.sandbox), settings, say, tell)
            page = matrix.report(request)
        else:
            page = matrix.run_matrix(request, settings, say, tell)
    click.echo(page)


@command.group(cls=ExampleGroup)
def train() -> None:
    """Train one model of the matrix."""


@train.command(
    epilog="\b\nExamples:\n  tuneloop matrix train sft --task gsm8k --mask-question --output-dir models/masked"
)
@TASK
@TEMPLATE
@click.option("--mask-question", is_flag=True, help="Only answers carry loss; with a chat template that is always so.")
@click.option("--output-dir", type=FOLDER, required=True, help="Where the model goes.")
@click.option("--seed", type=click.IntRange(min=1), default=1)
@CONFIG
@MODEL
@OPTIONS
@SANDBOX
def sft(task: str, *, use_chat_template: bool, mask_question: bool, output_dir: Path, seed: int, **given: Any) -> None:
    """Supervised fine-tuning."""
    from tuneloop.tools.matrix.experiments import sft_experiment

    train_one(sft_experiment(chat=use_chat_template, mask_question=mask_question, seed=seed), task, output_dir, given)


@train.command(
    epilog="\b\nExamples:\n  tuneloop matrix train grpo --task gsm8k --use-chat-template --output-dir models/grpo"
)
@TASK
@TEMPLATE
@click.option(
    "--output-dir", type=FOLDER, required=True, help="Where the model goes; an SFT that is needed, beside it."
)
@click.option("--seed", type=click.IntRange(min=1), default=1)
@CONFIG
@MODEL
@OPTIONS
@SANDBOX
def grpo(task: str, *, use_chat_template: bool, output_dir: Path, seed: int, **given: Any) -> None:
    """Reinforcement learning on the task's own verdicts."""
    from tuneloop.tools.matrix.experiments import grpo_experiment

    train_one(grpo_experiment(chat=use_chat_template, seed=seed), task, output_dir, given)


def train_one(one: Experiment, task: str, output_dir: Path, given: dict[str, Any]) -> None:
    """Train one model into `output_dir`. Raises InvalidRequestError."""
    from tuneloop.tools.matrix import run as matrix

    settings = load_settings()
    request = request_of(task, settings, {**given, "experiments": [one], "output_dir": output_dir, "parallel": 1})
    with progress_bar(one.name) as say:
        matrix.train_one(request, one, absolute_path(output_dir), settings, say, tell)
    click.echo(output_dir)


@command.command(name="eval")
@TASK
@click.option("--model-path", required=True, help="A folder with weights or an adapter, or a name of a model.")
@TEMPLATE
@click.option("--output-dir", type=FOLDER, required=True, help="Where results.json and summary.json go.")
@CONFIG
@click.option("--base-model", help="The model below an adapter, where the adapter does not say.")
@OPTIONS
@SANDBOX
def evaluate(
    task: str, *, model_path: str, use_chat_template: bool, output_dir: Path, base_model: str | None, **given: Any
) -> None:
    """Evaluate one model in one format."""
    from tuneloop.tools.matrix.configs import read_configs
    from tuneloop.tools.matrix.run import evaluate_one

    settings = load_settings()
    config = read_configs(given["config"]).evaluation
    asked: Format = "chat" if use_chat_template else "raw"
    with progress_bar(f"asked {asked}") as say:
        found = evaluate_one(
            task, model_path, asked, absolute_path(output_dir), config, given["options"], settings, say,
            sandbox=given["sandbox"], base_model=base_model,
        )  # fmt: skip
    click.echo(f"{found.accuracy:.1f} ({found.low:.1f} to {found.high:.1f}) of {found.n} items: {output_dir}")


@command.command(cls=SpreadCommand)
@click.option(
    "--results-dirs", multiple=True, required=True, type=FOLDER, metavar="DIR ...", help="Folders of evaluations."
)
@click.option("--output-dir", type=FOLDER, required=True, help="Where table, plots and page go.")
def report(results_dirs: tuple[Path, ...], output_dir: Path) -> None:
    """Compare evaluations: table, plots, and which differences are real."""
    from tuneloop.tools.matrix.report import write_report

    click.echo(write_report([absolute_path(folder) for folder in results_dirs], absolute_path(output_dir)))


@command.command(cls=SpreadCommand)
@TASK
@EXPERIMENTS
@click.option("--sample", type=click.IntRange(min=0), default=0, help="Which training row, from 0.")
@CONFIG
@MODEL
@OPTIONS
@SANDBOX
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show_tokens(task: str, *, sample: int, as_json: bool, **given: Any) -> None:
    """Print which tokens of a training row are read, and which carry loss."""
    from tuneloop.tools.matrix.run import sample_tokens

    settings = load_settings()
    request = request_of(task, settings, {**given, "output_dir": Path("results"), "parallel": 1})
    with progress_bar("tokens") as say:
        found = sample_tokens(request, sample, settings, say)
    if as_json:
        click.echo(json.dumps([one.facts() for one in found], indent=1))
        return
    for one in found:
        show_row(one)


def show_row(one: RowTokens) -> None:
    """A row in pieces: tokens that are read, tokens that carry loss, `|` between two of them."""
    colour = False if os.environ.get("NO_COLOR") else None
    same = "is" if one.prefix_matches else "IS NOT"
    click.echo(f"{one.name}: the prompt evaluated {one.asked} {same} what the row begins with")
    for loss, tokens in one.pieces:
        text = "|".join(printable(json.dumps(token.text, ensure_ascii=False)[1:-1], 200) for token in tokens)
        shown = click.style(text, fg="green", bold=True) if loss else click.style(text, dim=True)
        click.echo(f"  {'loss' if loss else 'read'} {len(tokens):4}  {shown}", color=colour)


def tell(line: str) -> None:
    """A line for people, beside the progress."""
    click.echo(printable(line, 1000), err=True)


def request_of(task: str, settings: Settings, given: dict[str, Any]) -> Request:
    """Options as the matrix takes them. Raises InvalidRequestError."""
    from tuneloop.tools.benchmark_items.resolve import find_declaration
    from tuneloop.tools.matrix.configs import read_configs
    from tuneloop.tools.matrix.experiments import ResultTree
    from tuneloop.tools.matrix.run import Request
    from tuneloop.tools.matrix.user_task import is_task_file, task_name

    name = task_name(task) if is_task_file(task) else find_declaration(task, settings).name
    base = given["base_model"] or settings.base_model or EMBEDDED.get(name)
    if base is None:
        tell(f"no --base-model: it is {OF_THE_SEED}")
        base = OF_THE_SEED
    tree = ResultTree(absolute_path(given["output_dir"]) / name)
    config = read_configs(absolute_path(given["config"]) if given["config"] else None)
    return Request(
        task, given["experiments"], tree, config, base, given["options"], given["parallel"], given["sandbox"]
    )
