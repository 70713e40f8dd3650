"""The matrix' report: `comparison.csv`, three plots, the items that change sides, and `report.md`, which says what is real."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from pydantic import BaseModel

from tuneloop.core.files import write_atomic, write_json
from tuneloop.core.formatting import format_interval, format_p_value
from tuneloop.tools.matrix.comparison import Cell, Pair, compare_cells, read_cells
from tuneloop.tools.matrix.experiments import EXPERIMENTS, FORMATS
from tuneloop.tools.matrix.training import Trained
from tuneloop.tools.report.plots import new_figure, save_figure
from tuneloop.tools.report.tables import markdown_table

PAGE, CHANGES, REWARDS = "report.md", "changes.json", "reward_curve.png"
COLOURS = {"chat": "#2b6cb0", "raw": "#b7791f"}
EXAMPLES = 5  # items of a pair that the page names
COLUMNS = (
    "experiment", "training_format", "training_method", "masking", "eval_format", "seeds", "n", "accuracy", "low", "high",
    "parsed", "seed_accuracies",
)  # fmt: skip


def write_report(folders: Sequence[Path], out: Path) -> Path:
    """Compare the cells in these folders; `report.md`, written last, is returned. Raises InvalidRequestError."""
    cells = read_cells(folders)
    pairs = compare_cells(cells)
    write_atomic(out / "comparison.csv", comparison_csv(cells))
    draw_bars(out / "accuracy_bar.png", cells)
    draw_groups(out / "accuracy_grouped.png", cells)
    draw_scatter(out / "eval_template_scatter.png", cells)
    if learned := with_rewards(cells):
        draw_rewards(out / REWARDS, learned)
    write_json(out / CHANGES, [change(pair).model_dump(mode="json") for pair in pairs])
    write_atomic(out / PAGE, page(cells, pairs))
    return out / PAGE


class Change(BaseModel):
    """A pair in `changes.json`, with ids of the items that cell `one` has right and the other has not, and the reverse."""

    one: str
    other: str
    gain: float
    low: float
    high: float
    p_value: float
    real: bool
    gained: tuple[str, ...]
    lost: tuple[str, ...]


def change(pair: Pair) -> Change:
    """A pair as it is stored."""
    return Change(
        one=pair.one.name,
        other=pair.other.name,
        gain=pair.gain,
        low=pair.low,
        high=pair.high,
        p_value=pair.p_value,
        real=pair.real,
        gained=pair.gained,
        lost=pair.lost,
    )


def comparison_csv(cells: Sequence[Cell]) -> str:
    """A line for each cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for cell in cells:
        low, high = cell.bounds
        parsed = sum(one.parsed for one in cell.summaries) / len(cell.summaries)
        numbers = [f"{number:.2f}" for number in (cell.accuracy, low, high, parsed)]
        seeds = " ".join(f"{value:.2f}" for value in cell.by_seed)
        writer.writerow(
            [cell.experiment, *cell.trained, cell.asked, len(cell.summaries), len(cell.values), *numbers, seeds]
        )
    return out.getvalue()


def page(cells: Sequence[Cell], pairs: Sequence[Pair]) -> str:
    """The whole page."""
    first = cells[0].summaries[0]
    base = first.trained.base_model if first.trained else first.model
    real = [pair for pair in pairs if pair.real]
    parts = [
        f"# {first.task}: chat templates in training and evaluation",
        f"Base model {base}, {len(cells[0].values)} items, {len(first_seeds(cells))} seed(s). Intervals are 95 % over items.",
        cells_table(cells),
        "## Which differences are real",
        *(["\n".join(f"- {sentence(pair)}" for pair in real)] if real else ["None."]),
        f"{len(pairs) - len(real)} of {len(pairs)} pairs differ by no more than chance would. Tests are paired over items, "
        "two-sided, and corrected together (Holm); with one seed they say nothing of what another seed would give.",
        *rewards(with_rewards(cells), pairs),
        *notes(cells),
        "## Plots",
        "![accuracy of every cell](accuracy_bar.png)",
        "![accuracy by training, coloured by evaluation format](accuracy_grouped.png)",
        "![evaluation with against without the chat template](eval_template_scatter.png)",
        "## Every pair",
        pairs_table(pairs) if pairs else "One cell alone has nothing to be compared with.",
        *changes(real),
    ]
    return "\n\n".join(parts) + "\n"


def with_rewards(cells: Sequence[Cell]) -> dict[str, Trained]:
    """The trainings by GRPO, by name and seed."""
    notes = [one.trained for cell in cells for one in cell.summaries if one.trained and one.trained.rewards]
    return {f"{one.experiment}, seed {one.seed}": one for one in notes}


def rewards(learned: Mapping[str, Trained], pairs: Sequence[Pair]) -> list[str]:
    """What each GRPO began with, what its replies earned, and whether it is better than the SFT of its format."""
    if not learned:
        return []
    gains = [
        f"- {pair.other.name} against {pair.one.name}: {-pair.gain:+.1f} points ({-pair.high:.1f} to {-pair.low:.1f}), "
        f"{'a real difference' if pair.real else 'no more than chance'}"
        for pair in pairs
        if follows(pair)
    ]
    return [
        "## Rewards",
        *(["\n".join(gains)] if gains else []),
        "A reply earns what the task's own checker gives it, from 0 to 1; means over a tenth of the steps.",
        "\n".join(f"- {reward_sentence(name, one)}" for name, one in learned.items()),
        f"![reward of each step]({REWARDS})",
    ]


def follows(pair: Pair) -> bool:
    """Whether the second is the GRPO, and the first the SFT, of one format, asked in it."""
    known = {one.name: one for one in EXPERIMENTS}
    sft, grpo = (known.get(cell.experiment) for cell in (pair.one, pair.other))
    if sft is None or grpo is None or grpo.method != "grpo":
        return False
    return grpo.sft == sft and pair.one.asked == pair.other.asked == grpo.format


def reward_sentence(name: str, one: Trained) -> str:
    """A curve in words."""
    few = max(1, len(one.rewards) // 10)
    first, last = one.rewards[:few], one.rewards[-few:]
    alike = fmean(row.get("alike", 0.0) for row in one.rewards)
    parts = [
        f"**{name}** began with {one.start}: {told(first, 'reward', '.2f')} at first, {told(last, 'reward', '.2f')} at the end",
        f"replies of {told(first, 'length', '.0f')} and {told(last, 'length', '.0f')} tokens",
        f"{100 * alike:.0f} % of groups taught nothing, for all their replies earned the same",
    ]
    if any("kl" in row for row in one.rewards):
        parts.append(f"distance from where it began (KL) {told(last, 'kl', '.3f')} at the end")
    return "; ".join(parts)


def told(rows: Sequence[Mapping[str, float]], name: str, form: str) -> str:
    """A mean."""
    return format(fmean(row.get(name, 0.0) for row in rows), form)


def first_seeds(cells: Sequence[Cell]) -> list[int]:
    """Seeds of the first cell."""
    return [one.seed for one in cells[0].summaries]


def cells_table(cells: Sequence[Cell]) -> str:
    """A row for each cell."""
    rows = [
        (
            cell.experiment,
            " ".join(filter(None, cell.trained)),
            cell.asked,
            format_interval(cell.accuracy, *cell.bounds),
            " ".join(f"{value:.1f}" for value in cell.by_seed) if len(cell.by_seed) > 1 else "",
            f"{sum(one.parsed for one in cell.summaries) / len(cell.summaries):.0f} %",
        )
        for cell in cells
    ]
    return markdown_table(("experiment", "trained", "evaluated", "accuracy", "by seed", "answer found"), rows)


def sentence(pair: Pair) -> str:
    """A real difference in words."""
    better, worse, sign = (pair.one, pair.other, 1) if pair.gain > 0 else (pair.other, pair.one, -1)
    low, high = sorted((sign * pair.low, sign * pair.high))
    return (
        f"**{better.name}** is better than {worse.name} by {abs(pair.gain):.1f} points ({low:.1f} to {high:.1f}; "
        f"p {format_p_value(pair.p_value)})"
    )


def pairs_table(pairs: Sequence[Pair]) -> str:
    """A row for each pair."""
    rows = [
        (
            pair.one.name,
            pair.other.name,
            f"{pair.gain:+.1f} ({pair.low:.1f} to {pair.high:.1f})",
            format_p_value(pair.p_value),
            str(len(pair.gained)),
            str(len(pair.lost)),
            "real" if pair.real else "",
        )
        for pair in pairs
    ]
    return markdown_table(("cell", "against", "points", "p, corrected", "items won", "items lost", ""), rows)


def changes(real: Sequence[Pair]) -> list[str]:
    """Items that change sides, a few of each real difference."""
    if not real:
        return []
    lines = [
        f"- {pair.one.name} against {pair.other.name}: won {shown(pair.gained)}; lost {shown(pair.lost)}"
        for pair in real
    ]
    return [
        "## Items that change sides",
        "All of them are in `changes.json`; replies are in each cell's `results.json`.",
        "\n".join(lines),
    ]


def shown(ids: Sequence[str]) -> str:
    """The first ids, and how many more there are."""
    more = f" and {len(ids) - EXAMPLES} more" if len(ids) > EXAMPLES else ""
    return (", ".join(ids[:EXAMPLES]) or "none") + more


def notes(cells: Sequence[Cell]) -> list[str]:
    """What makes the comparison less fair than it looks."""
    found = []
    summaries = [one for cell in cells for one in cell.summaries]
    if len({one.measured_with for one in summaries}) > 1:
        found.append(
            "- The cells were measured under different conditions (engine, device or batches): evaluate them again together."
        )
    if len({len(cell.summaries) for cell in cells}) > 1:
        found.append("- The cells have different numbers of seeds.")
    if any(one.truncated for one in summaries):
        found.append("- Some prompts were longer than the model's context and lost their beginning.")
    return ["## Notes", "\n".join(found)] if found else []


def draw_bars(path: Path, cells: Sequence[Cell]) -> None:
    """Accuracy of every cell with its interval."""
    figure, axes = new_figure("Accuracy of every cell, 95 % intervals", "", "accuracy (0-100)")
    for asked in FORMATS:
        places = [i for i, cell in enumerate(cells) if cell.asked == asked]
        chosen = [cells[i] for i in places]
        axes.bar(
            places,
            [c.accuracy for c in chosen],
            yerr=errors(chosen),
            capsize=4,
            color=COLOURS[asked],
            label=f"asked {asked}",
        )
    axes.set_xticks(range(len(cells)), [cell.experiment for cell in cells], rotation=25, ha="right", fontsize=8)
    axes.set_ylim(0, 100)
    axes.legend(fontsize=8)
    save_figure(figure, path)


def draw_groups(path: Path, cells: Sequence[Cell]) -> None:
    """The formats side by side for each training."""
    names = list(dict.fromkeys(cell.experiment for cell in cells))
    figure, axes = new_figure("Accuracy by training", "", "accuracy (0-100)")
    for offset, asked in zip((-0.2, 0.2), FORMATS, strict=True):
        chosen = [cell for cell in cells if cell.asked == asked]
        places = [names.index(cell.experiment) + offset for cell in chosen]
        heights = [cell.accuracy for cell in chosen]
        axes.bar(
            places, heights, 0.38, yerr=errors(chosen), capsize=4, color=COLOURS[asked], label=f"evaluated {asked}"
        )
    axes.set_xticks(range(len(names)), names, rotation=15, ha="right", fontsize=8)
    axes.set_ylim(0, 100)
    axes.legend(fontsize=8)
    save_figure(figure, path)


def draw_scatter(path: Path, cells: Sequence[Cell]) -> None:
    """Each training as a point: without the template across, with it up."""
    figure, axes = new_figure("Evaluation format", "accuracy without chat template", "accuracy with chat template")
    by_name = {(cell.experiment, cell.asked): cell.accuracy for cell in cells}
    for name in dict.fromkeys(cell.experiment for cell in cells):
        if (name, "chat") in by_name and (name, "raw") in by_name:
            axes.plot(by_name[name, "raw"], by_name[name, "chat"], "o", label=name)
    axes.plot([0, 100], [0, 100], "--", color="#888888", linewidth=1)
    axes.set(xlim=(0, 100), ylim=(0, 100))
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize=8)
    save_figure(figure, path)


def draw_rewards(path: Path, learned: Mapping[str, Trained]) -> None:
    """Reward by step, smoothed over a twentieth of them."""
    figure, axes = new_figure("What replies earned", "step", "mean reward (0-1)")
    for name, one in learned.items():
        few = max(1, len(one.rewards) // 20)
        means = [fmean(row["reward"] for row in one.rewards[max(0, i - few) : i + 1]) for i in range(len(one.rewards))]
        axes.plot([row["step"] for row in one.rewards], means, label=name)
    axes.set_ylim(0, 1)
    axes.legend(fontsize=8)
    save_figure(figure, path)


def errors(cells: Sequence[Cell]) -> list[list[float]]:
    """Lengths of the intervals below and above."""
    return [
        [max(0.0, cell.accuracy - cell.bounds[0]) for cell in cells],
        [max(0.0, cell.bounds[1] - cell.accuracy) for cell in cells],
    ]
