"""How the final answer has to stand in a reply, so that the benchmark's scorer reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tuneloop.core.catalog import Benchmark
from tuneloop.core.profile import FinalForm
from tuneloop.core.text import with_answer
from tuneloop.tools.scoring.answer_matching import correct, group_span, tokens

WORDED = re.compile(
    r"((?:[A-Z][\w-]*(?: [a-z][\w-]*)?|answer):)[ \t]*"
    r"(?:\"|'|`|\*|<|\[|\{|\(|number|letter|the |your |n\b|x\b|[A-E]\b|\d|\.\.\.)"
)
FIELD = re.compile(r"\{\w+\}")
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
OWN_FORMS = {"boxed": "\\boxed{ANSWER}", "exact": "ANSWER", "verifier": "<answer>ANSWER</answer>"}
# What a colon follows and no answer.
OTHER_WORDS = ("question", "example", "options", "q", "source", "license", "licence", "note", "task", "data")
STEPS = "First, 3 + 4 = 7. Then we go on.\n"


def final_form(benchmark: Benchmark, frame: str, answers: Sequence[str]) -> FinalForm:
    """The form for the benchmark's scorer, in the wording the task itself uses where it has one.

    `frame`: what all prompts begin and end with; `answers`: some that have to be read back.
    """
    asked = FIELD.sub("\0", benchmark.prompt)  # the name before a field is none of the answer's
    wording = wording_form(f"{frame}\n{asked}\n{benchmark.description}")
    if benchmark.final:
        return FinalForm(template=benchmark.final, steps=True)
    kind, _, pattern = benchmark.answer.partition(":")
    if kind != "regex":
        return FinalForm(template=OWN_FORMS.get(kind) or wording or "Answer: ANSWER", steps=kind != "exact")
    literal = literal_form(pattern)
    for form in forms_with_steps([form for form in (wording, literal, *FORMS) if form]):
        reply = (STEPS if form.steps else "") + form.template
        if all(correct(benchmark.answer, answer, with_answer(reply, answer)) for answer in answers):
            return form
    return FinalForm(template=wording or literal, steps=True)


def forms_with_steps(templates: Sequence[str]) -> Iterator[FinalForm]:
    """Each with steps before it, then each without."""
    yield from (FinalForm(template=template, steps=steps) for steps in (True, False) for template in templates)


def wording_form(said: str) -> str | None:
    """`Answer: ANSWER`, `#### ANSWER` and the like, if prompt or description ask for it."""
    for mark in ("####", "<answer>", "\\boxed"):
        if mark in said:
            return next(form for form in FORMS if form.startswith(mark))
    if found := [words for words in WORDED.findall(said) if words[:-1].casefold() not in OTHER_WORDS]:
        return f"{found[-1]} ANSWER"
    spoken = SPOKEN.search(said)
    return f"{spoken[1]} ANSWER." if spoken else None


def literal_form(pattern: str) -> str:
    r"""The pattern with its first group as ANSWER and the rest as plain text: `Answer:\s*(\d+)` → `Answer: ANSWER`."""
    pieces = tokens(re.sub(r"^\(\?[a-zA-Z]+\)", "", pattern))
    span = group_span(pieces)
    if span is None:
        return "ANSWER"
    before, after = "".join(pieces[: span[0]]), "".join(pieces[span[1] + 1 :])
    return shortest_match(before) + "ANSWER" + shortest_match(after)


def shortest_match(pattern: str) -> str:
    """The shortest plain text a simple pattern matches, with a blank for optional white space."""
    text = re.sub(r"\\[^\w\s][?*]", "", re.sub(r"\\s[*+?]?| [*?]", " ", pattern))
    text = re.sub(r"\(\?:([^()|]*)(?:\|[^()]*)?\)\??", r"\1", text)
    text = re.sub(r"\[([^\]^\\])[^\]]*\][?*]?", r"\1", text)
    text = re.sub(r"\\b|\^|\$|\\Z|\\A|(?<=\w)\?", "", text)
    text = re.sub(r".[*?]|(?<=.)\+", "", text) if re.search(r"(?<!\\)[*?+]", text) else text
    return re.sub(r"\\(.)", r"\1", text)
