"""Verdicts of lm-evaluation-harness's own tasks, inside its environment: `python reference_lm_eval.py ASKED.jsonl VERDICTS.json`.

ASKED has lines {task: a task's file below lm_eval/tasks, filter, metric, doc, reply}. The task's own filters, metrics and
`process_results` decide; only where its documents come from is replaced.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import lm_eval.tasks
from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask
from lm_eval.tasks._yaml_loader import load_yaml

TASKS = Path(lm_eval.tasks.__file__).parent


def task_of(name: str, docs: Path) -> ConfigurableTask:
    """The harness's task on other documents."""
    config = load_yaml(TASKS / name, resolve_func=True)
    for key in (
        "tag",
        "task_alias",
        "dataset_name",
        "training_split",
        "validation_split",
        "fewshot_split",
        "process_docs",
    ):
        config.pop(key, None)
    config |= {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(docs)}}, "test_split": "test"}
    config |= {"num_fewshot": 0, "task": Path(name).stem}
    config.pop("fewshot_config", None)
    return ConfigurableTask(config=config)


def verdicts(name: str, asked: list[dict[str, Any]], folder: Path) -> list[bool]:
    """Whether the task calls each reply right."""
    docs = folder / "docs.json"
    docs.write_text("".join(json.dumps(one["doc"]) + "\n" for one in asked))
    task = task_of(name, docs)
    rows = [Instance("generate_until", one["doc"], (), i, resps=[one["reply"]]) for i, one in enumerate(asked)]
    for ensemble in task._filters:
        ensemble.apply(rows)
    found = []
    for one, row in zip(asked, rows, strict=True):
        reply = row.filtered_resps[one["filter"]]
        reply = reply if isinstance(reply, list) and task.config.process_results else [reply]
        found.append(bool(task.process_results(one["doc"], reply)[one["metric"]]))
    return found


if __name__ == "__main__":
    lines = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
    tasks: dict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(lines):
        tasks[line["task"]].append(number)
    result: list[bool | None] = [None] * len(lines)
    for task_name, numbers in tasks.items():
        for number, right in zip(numbers, verdicts(task_name, [lines[n] for n in numbers], Path.cwd()), strict=True):
            result[number] = right
    Path(sys.argv[2]).write_text(json.dumps(result))
