"""How the final answer has to stand in a reply, so that the benchmark's scorer reads it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tuneloop.core.brief import Task
from tuneloop.core.profile import BenchmarkFacts

WORDED = re.compile(
    r"((?:[A-Z][\w-]*(?: [a-z][\w-]*)?|answer):)[ \t]*"
    r"(?:\"|'|`|\*|<|\[|\{|\(|number|letter|the |your |n\b|x\b|[A-E]\b|\d|\.\.\.)"
)
SPOKEN = re.compile(r"([Tt]he (?:final |correct )?answer is)\b(?! (?:an?|one|always|the|not|in)\b)")
FORMS = (
    "ANSWER",
    "Answer: ANSWER",
    "#### ANSWER",
    "\\boxed{ANSWER}",
    "<answer>ANSWER</answer>",
    "**ANSWER**",
    "(ANSWER)",
    "[ANSWER]",
    "The answer is ANSWER.",
    "Final answer: ANSWER",
    "ANSWER.",
    "= ANSWER",
)
STEPS = "First, 3 + 4 = 7. Then we go on.\n"


@dataclass(frozen=True)
class FinalForm:
    """`ANSWER` stands for the answer; `steps`: something may stand before it."""

    template: str
    steps: bool


def final_form(task: Task, facts: BenchmarkFacts) -> FinalForm:
    """The form for the benchmark's scorer, in the wording the task itself uses where it has one."""
    wording = worded(task, facts)
    if task.final:
        return FinalForm(task.final, True)
    if task.answer == "boxed":
        return FinalForm("\\boxed{ANSWER}", True)
    if task.answer == "exact":
        return FinalForm("ANSWER", False)
    if task.answer.startswith("regex:"):
        return pattern_form(task.answer.removeprefix("regex:"), facts.answer_examples, wording)
    return FinalForm(wording or "Answer: ANSWER", True)


def worded(task: Task, facts: BenchmarkFacts) -> str | None:
    """`Answer: ANSWER`, `#### ANSWER` and the like, if prompt or description ask for it."""
    said = "\n".join((facts.prompt_prefix, facts.prompt_suffix, task.prompt, task.description))
    for mark, form in (
        ("####", "#### ANSWER"),
        ("<answer>", "<answer>ANSWER</answer>"),
        ("\\boxed", "\\boxed{ANSWER}"),
    ):
        if mark in said:
            return form
    found = [
        m[1]
        for m in WORDED.finditer(said)
        if m[1].split(":")[0].casefold() not in ("question", "example", "options", "q")
    ]
    if found:
        return f"{found[-1]} ANSWER"
    spoken = SPOKEN.search(said)
    return f"{spoken[1]} ANSWER." if spoken else None


def pattern_form(pattern: str, answers: Sequence[str], wording: str | None) -> FinalForm:
    """A form that the pattern reads back for every answer seen; with steps before it if that can be read too."""
    literal = literal_form(pattern)
    forms = [f for f in (wording, literal, *FORMS) if f]
    for steps in (True, False):
        for form in forms:
            if all(reads(pattern, (STEPS if steps else "") + form.replace("ANSWER", a), a) for a in answers):
                return FinalForm(form, steps)
    return FinalForm(wording or literal or "ANSWER", True)


def reads(pattern: str, reply: str, answer: str) -> bool:
    """Whether the last match in the reply gives the answer."""
    found = [m[1] if m.re.groups else m[0] for m in re.finditer(pattern, reply)]
    kept = [" ".join(f.split()) for f in found if f and f.strip()]
    return bool(kept) and kept[-1].casefold() == " ".join(answer.split()).casefold()


def literal_form(pattern: str) -> str:
    r"""The pattern with its first group as ANSWER and the rest as plain text: `Answer:\s*(\d+)` → `Answer: ANSWER`."""
    text = re.sub(r"^\(\?[a-zA-Z]+\)", "", pattern)
    depth, start, end = 0, -1, -1
    for i, c in enumerate(text):
        if c in "()" and (i == 0 or text[i - 1] != "\\"):
            capturing = c == "(" and (text[i + 1 : i + 2] != "?" or text[i + 1 : i + 4] == "?P<")
            if capturing and start < 0:
                start, depth = i, 0
            depth += 1 if c == "(" else -1
            if c == ")" and depth == 0 and start >= 0 and end < 0:
                end = i
    if start < 0 or end < 0:
        return "ANSWER"
    return plain(text[:start]) + "ANSWER" + plain(text[end + 1 :])


def plain(pattern: str) -> str:
    """The shortest plain text a simple pattern matches, with a blank for optional white space."""
    text = re.sub(r"\\[^\w\s][?*]", "", re.sub(r"\\s[*+?]?| [*?]", " ", pattern))
    text = re.sub(r"\(\?:([^()|]*)(?:\|[^()]*)?\)\??", r"\1", text)
    text = re.sub(r"\[([^\]^\\])[^\]]*\][?*]?", r"\1", text)
    text = re.sub(r"\\b|\^|\$|\\Z|\\A|(?<=\w)\?", "", text)
    text = re.sub(r".[*?]|(?<=.)\+", "", text) if re.search(r"(?<!\\)[*?+]", text) else text
    return re.sub(r"\\(.)", r"\1", text)
