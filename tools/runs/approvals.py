"""Approvals in an experiment's folder: what was asked (`<when>-<key>.asked.json`) and, beside it, what was answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tuneloop.core.directive import Approve
from tuneloop.core.directive_log import open_directives
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.experiment import ApprovalDecision, ApprovalPoint, ApprovalRequest
from tuneloop.core.files import digest, read_bytes, read_json, read_model, read_text, write_json
from tuneloop.core.layout import ExperimentFolder, RunFolder
from tuneloop.core.run_spec import ApproveAt, RunSpec


def approve_at(run: RunFolder, spec: RunSpec) -> ApproveAt:
    """When the run asks: as the newest directive says, else as it was started."""
    newest = [d.command.at for d in open_directives(run.directives) if isinstance(d.command, Approve)]
    return newest[-1] if newest else spec.approve


def recipe_key(folder: ExperimentFolder, attempt: int) -> str:
    """Of a recipe as it is now: another recipe is another question."""
    return digest(str(attempt), read_bytes(folder.script), read_bytes(folder.config))


def write_question(folder: ExperimentFolder, asked: ApprovalRequest) -> bool:
    """Write it down; whether it is new."""
    file = folder.approvals / f"{asked.at}-{asked.key}.asked.json"
    if file.is_file():
        return False
    write_json(file, asked.model_dump(mode="json"))
    return True


def has_question(folder: ExperimentFolder) -> bool:
    """Whether anything was asked of this experiment."""
    return any(folder.approvals.glob("*.asked.json"))


def find_decision(folder: ExperimentFolder, at: ApprovalPoint, key: str) -> ApprovalDecision | None:
    """What was answered to this question."""
    file = folder.approvals / f"{at}-{key}.json"
    return read_model(file, ApprovalDecision) if file.is_file() else None


def write_decision(
    folder: ExperimentFolder, at: ApprovalPoint, key: str, decision: ApprovalDecision
) -> ApprovalDecision:
    """Answer once: the first answer holds. The caller holds the run's lock."""
    found = find_decision(folder, at, key)
    if found is None:
        write_json(folder.approvals / f"{at}-{key}.json", decision.model_dump(mode="json"))
    return found or decision


def open_question(run: RunFolder) -> ApprovalRequest | None:
    """What the run waits for, the newest; None: nothing."""
    file = _open_question(run)
    return read_model(file, ApprovalRequest) if file else None


def asked_at(run: RunFolder) -> float:
    """When the open question was asked, in seconds since the epoch; 0 without one."""
    file = _open_question(run)
    return file.stat().st_mtime if file else 0.0


def _open_question(run: RunFolder) -> Path | None:
    for place in sorted(run.experiments.glob("[0-9]*"), key=lambda p: int(p.name), reverse=True):
        folder = ExperimentFolder(place)
        if folder.result.is_file():  # and so are all before it
            return None
        asked = sorted(folder.approvals.glob("*.asked.json"), key=lambda f: f.stat().st_mtime_ns)
        still = [f for f in asked if not f.with_name(f.name.replace(".asked.json", ".json")).exists()]
        if still:
            return still[-1]
    return None


# An approval that changes the recipe: hypothesis, script and config as text.

IDEA = "hypothesis.yaml"


def editable_texts(folder: ExperimentFolder) -> dict[str, str]:
    """What may be edited, as text."""
    import yaml  # slow, and few approvals are edits

    idea = yaml.safe_dump(read_json(folder.hypothesis), sort_keys=False, allow_unicode=True)
    return {IDEA: idea, folder.script.name: read_text(folder.script), folder.config.name: read_text(folder.config)}


def edit_to_answer(before: dict[str, str], after: dict[str, str]) -> ApprovalDecision:
    """The answer that an edit is; nothing changed: yes. Raises InvalidRequestError when the hypothesis is none."""
    import yaml

    new = {name: text for name, text in after.items() if text != before[name]}
    try:
        idea: Any = yaml.safe_load(new[IDEA]) if IDEA in new else None
        files = {name: text for name, text in new.items() if name != IDEA}
        return ApprovalDecision.model_validate(
            {"decision": "edit" if new else "yes", "files": files, "hypothesis": idea}
        )
    except (yaml.YAMLError, ValidationError) as e:
        raise InvalidRequestError(f"{IDEA}: {' '.join(str(e).split())[:300]}; nothing was changed") from e
