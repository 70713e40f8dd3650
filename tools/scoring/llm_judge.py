"""A language model as judge of replies that the rule did not call right: what it is shown, and what of it is believed.

The rule decides first, and what it calls right stays right. The judge sees a reply as quoted lines; its verdict counts only
as the last line, in the form and with the code that it was given for this very reply, which no reply can know. Anything
else is no verdict: the item stays wrong, and is counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tuneloop.core.catalog import Benchmark
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import digest
from tuneloop.core.settings import Settings
from tuneloop.prompts import fill
from tuneloop.tools.benchmark_items.folder import render_prompt
from tuneloop.tools.evaluation.item_sets import ItemSet, Pair
from tuneloop.tools.llm_proxy.access import Access, judge_access, upstreams
from tuneloop.tools.llm_proxy.batch import SOURCES, LlmAnswer, LlmRequest
from tuneloop.tools.llm_proxy.probe import check_endpoint

Verdict = Literal["correct", "incorrect"]
Row = dict[str, Any]
LONGEST, HEAD = 12_000, 2_000  # characters of a text that the judge is shown, and of its beginning
ANSWER_TOKENS = 4096  # a judge may think aloud
LINE = re.compile(r"[\s*_`>#]*VERDICT\s+(?P<code>[0-9a-f]{8})\s*:\s*(?P<word>CORRECT|INCORRECT)[\s*_`.]*")
WORDS: dict[str, Verdict] = {"CORRECT": "correct", "INCORRECT": "incorrect"}


def quote_lines(text: str) -> str:
    """Every line, whatever ends it, behind a mark; what is too long loses its middle."""
    if len(text) > LONGEST:
        left = len(text) - LONGEST
        return f"{quote_lines(text[:HEAD])}\n[{left} characters left out]\n{quote_lines(text[HEAD + left :])}"
    return "\n".join(f"| {line}" for line in text.splitlines() or [""])


def verdict_code(question: str, gold: str, reply: str) -> str:
    """Eight hex digits that this verdict has to carry."""
    return digest(question, gold, reply)[:8]


def judge_prompt(question: str, gold: str, reply: str) -> str:
    """What the judge is asked."""
    texts = {"question": quote_lines(question), "gold": quote_lines(gold), "reply": quote_lines(reply)}
    return fill("judge", code=verdict_code(question, gold, reply), **texts)


def judge_request(name: str, model: str, question: str, gold: str, reply: str) -> LlmRequest:
    """One reply to be judged; `name` names it."""
    turns = [{"role": "user", "content": judge_prompt(question, gold, reply)}]
    body = {"model": model, "messages": turns, "temperature": 0, "seed": 1, "max_tokens": ANSWER_TOKENS}
    return LlmRequest(name, "chat/completions", body, spare=("temperature", "seed"))


def parse_verdict(said: str | None, code: str) -> Verdict | None:
    """The verdict in what a judge said, None where there is none that can be believed."""
    lines = [line for line in (said or "").splitlines() if line.strip()]
    found = LINE.fullmatch(lines[-1]) if lines else None
    if found is None or found["code"] != code:
        return None
    word = WORDS[found["word"]]
    others = [m for line in lines[:-1] if (m := LINE.fullmatch(line)) and m["code"] == code]
    return word if all(WORDS[m["word"]] == word for m in others) else None


def find_judge(settings: Settings, benchmarks: Iterable[Benchmark]) -> Access | None:
    """Who judges what the rule does not call right; None where no benchmark wants one, or none is named.

    Raises InvalidRequestError where one is named and cannot be asked.
    """
    if not any(one.judge for one in benchmarks) or not settings.judge_model:
        return None
    access = judge_access(settings)
    if access is None:
        raise InvalidRequestError(
            f"FT_JUDGE_MODEL={settings.judge_model}, and no key to ask it with: set FT_JUDGE_API_KEY or FT_JUDGE_API_BASE, "
            "or unset FT_JUDGE_MODEL, and the rule decides alone"
        )
    return access


def check_judge(settings: Settings, access: Access) -> None:
    """Raises InvalidRequestError unless the judge's endpoint answers, takes the key and knows the model."""
    variables = "FT_JUDGE_MODEL, FT_JUDGE_API_KEY, FT_JUDGE_API_BASE"
    check_endpoint(upstreams(settings)["judge"], access.models[0], "the judge's endpoint", variables)


def judged_key(key: str, settings: Settings, access: Access) -> str:
    """Of a result that this judge has had a part in: the rule's key, and everything that can change the judge's word."""
    sources = [place.read_text(encoding="utf-8") for place in (Path(__file__), *SOURCES)]
    told = judge_prompt("question", "gold", "reply")
    return digest(key, upstreams(settings)["judge"].base, access.models[0], told, *sources)


def is_left_to_judge(reply: Row) -> bool:
    """Whether this reply still goes to the judge: the rule called it wrong, and it is not empty."""
    return "judge" not in reply and reply["value"] < 1 and bool(reply["prediction"].strip())


def judge_requests(model: str, rows: Mapping[Pair, Row], sets: Mapping[str, ItemSet]) -> list[LlmRequest]:
    """What is asked of the judge about these replies, in their order."""
    found = []
    for (who, name), row in rows.items():
        known = {item.id: item for item in sets[name].items}
        for reply in filter(is_left_to_judge, row["items"]):
            item = known[reply["id"]]
            asked = (render_prompt(sets[name].benchmark, item), item.answer, reply["prediction"])
            found.append(judge_request(request_id(who, name, item.id), model, *asked))
    return found


def request_id(model: str, name: str, item: str) -> str:
    """Names a reply among all that are judged at once."""
    return f"{model} {name} {item}"


def add_judge_verdicts(
    rows: Mapping[Pair, Row], heard: Mapping[str, LlmAnswer], sets: Mapping[str, ItemSet]
) -> dict[Pair, Row]:
    """The rows with the judge's text on each reply that it was asked about: `judge`, "" where it returned nothing."""
    return {
        (who, name): {**row, "items": _verdict_of_answer(who, name, row["items"], heard)}
        if sets[name].benchmark.judge
        else row
        for (who, name), row in rows.items()
    }


def _verdict_of_answer(who: str, name: str, items: Sequence[Row], heard: Mapping[str, LlmAnswer]) -> list[Row]:
    return [
        {**item, "judge": heard[request_id(who, name, item["id"])].text or ""} if is_left_to_judge(item) else item
        for item in items
    ]
