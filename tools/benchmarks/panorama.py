"""PANORAMA: three steps of a patent examination, each asked directly and with the reasoning first, and the three together.

What is asked and what is shown is as in the benchmark of LG AI Research; the sentences are ours. Prompts are long (the
whole text of an older patent): where a model's context is shorter, the beginning is cut and the evaluation counts it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tuneloop.core.catalog import Benchmark, Item, Source
from tuneloop.tools.benchmark_items.raw_rows import read_rows

REPO, LICENCE, DOMAIN = "LG-AI-Research/PANORAMA", "CC-BY-NC-4.0", "patent"
DIRECT, REASONED = 8192, 16384  # tokens of a reply

APPLICATION = "You examine a patent application, number {application}.\n\nTitle: {title}\n\nAbstract: {abstract}\n\n"
PAR4PC = (
    APPLICATION
    + "Its claims:\n{claims}\n\nClaim {number} is to be rejected. Eight older patents, A to H:\n\n{options}\n\n"
    "Which of the eight were cited against claim {number}? One was, or several. Go by the texts above alone. "
)
PI4PC = (
    APPLICATION + "Claim {number}: {claim}\n\nAn older patent is cited against claim {number}.\n\n{prior}\n\n"
    "Five of its paragraphs, each after its number:\n\n{options}\n\n"
    "Which one of the five speaks most against claim {number}? "
)
NOC4PC = (
    APPLICATION + "Claim {number}: {claim}\n\nOlder patents and the paragraphs of them that matter:\n\n{prior}\n\n"
    "Is claim {number} allowed (ALLOW), or rejected because one of the older patents shows all of it "
    "(35 U.S.C. 102, code 102), or because it is obvious over them (35 U.S.C. 103, code 103)? "
)
ONLY = "Reply with one JSON object and nothing else, for example {example}"
FIRST = "Reason first: {steps} Then end with one JSON object, the reason before the answer, for example {example}"
LAST = " The last such object in the reply counts; without one that can be read the reply is wrong."


def declare(task: str, prompt: str, asks: str, forms: tuple[str, str], steps: str, **more: Any) -> Iterator[Benchmark]:
    """A task asked directly, and asked with reasons. `forms`: what stands for the answer in JSON, first and second example."""
    name = task.upper()
    common = {"domain": DOMAIN, "licence": LICENCE, "answer": f"scorer:{task}", **more}
    source = Source(repo=REPO, files=(f"{name}/test*.parquet",))
    plain = [f"{{{form}}}" for form in forms]
    reasoned = [f'{{"reason": "...", {form}}}' for form in forms]
    for suffix, ending, examples, limit in (
        ("", ONLY, plain, DIRECT),
        ("_cot", FIRST.replace("{steps}", steps), reasoned, REASONED),
    ):
        shown = " or ".join(dict.fromkeys(examples))
        how = "with the reasoning first" if suffix else "without anything around it"
        yield Benchmark(
            name=f"panorama_{task}{suffix}",
            description=f"{asks} The reply ends with a JSON object, {how}: {shown}.{LAST}",
            prompt=prompt + ending.replace("{example}", shown),
            source=source,
            max_new_tokens=limit,
            **common,
        )


BENCHMARKS = (
    *declare(
        "par4pc",
        PAR4PC,
        "PANORAMA PAR4PC, US patent examination: an application, one of its claims, eight older patents A to H; which were "
        "cited against the claim? Right is exactly the set of cited ones. custom_score beside it gives part of the points, "
        "and does not punish a patent that is as good (silver).",
        ('"answer": ["A"]', '"answer": ["A", "C"]'),
        "take the claim apart into its features, say for each patent which of them it shows, whether one alone shows all "
        "of them, and else which few together do and why they would be combined.",
        final='{"answer": "ANSWER"}',
        metric="exact_match",
        metrics=("custom_score", "precision_micro", "recall_micro", "f1_micro", "f1_macro", "f1_items"),
    ),
    *declare(
        "pi4pc",
        PI4PC,
        "PANORAMA PI4PC, US patent examination: a claim, an older patent as a whole and five of its paragraphs; which one is "
        "cited against the claim? The answer is the paragraph's number. custom_score beside it gives half a point for a "
        "paragraph that is nearly as good (silver).",
        ('"answer": 17', '"answer": 17'),
        "take the claim apart into its features, go through all five paragraphs and say which features each of them shows, "
        "and weigh them.",
        final='{"answer": ANSWER}',
        metric="gold_hit_rate",
        metrics=("custom_score", "gold_or_silver"),
    ),
    *declare(
        "noc4pc",
        NOC4PC,
        "PANORAMA NOC4PC, US patent examination: a claim and the older patents cited; is it allowed (ALLOW), not new (102) or "
        "obvious (103)?",
        ('"code": "102"', '"code": "ALLOW"'),
        "take the claim apart into its features, compare each of them with each of the older patents, and decide whether one "
        "shows all (102), several together make it obvious (103), or neither.",
        final='{"code": "ANSWER"}',
        metric="accuracy",
        metrics=("f1_macro",),
    ),
    Benchmark(
        name="panorama",
        domain=DOMAIN,
        licence=LICENCE,
        description="PANORAMA: its three tasks, asked directly.",
        parts=("panorama_par4pc", "panorama_pi4pc", "panorama_noc4pc"),
    ),
)


def pool(benchmark: Benchmark, raw: Path) -> Iterator[Item]:
    """The public test set. Claims of one application stay together."""
    task = benchmark.name.split("_")[1]
    read: Callable[[dict[str, Any]], tuple[dict[str, str], str, str]] = READERS[task]
    seen: dict[str, int] = {}
    for row in read_rows(raw, f"{task.upper()}/test*.parquet"):
        fields, gold, group = read(row)
        name = f"{fields['application']}-{fields['number']}"
        seen[name] = seen.get(name, 0) + 1
        yield Item(id=f"{name}-{seen[name]}", fields=fields, answer=gold, group=group, cluster=fields["application"])


def par4pc(row: dict[str, Any]) -> tuple[dict[str, str], str, str]:
    """Fields, gold and group of a row."""
    options = parsed(row["options"])
    shown = [f"{letter}. {patent(parsed(options[letter]))}" for letter in sorted(options) if options[letter]]
    fields = application(row) | {"claims": "\n".join(claims(parsed(row["context"]))), "options": "\n\n".join(shown)}
    gold, silver = listed(row["gold_answers"]), listed(row["silver_answers"])
    return fields, json.dumps({"gold": gold, "silver": silver}), "one cited" if len(gold) == 1 else "several cited"


def pi4pc(row: dict[str, Any]) -> tuple[dict[str, str], str, str]:
    """Fields, gold and group of a row."""
    options = {int(number): text for number, text in parsed(row["options"]).items() if text is not None}
    prior = parsed(row["prior_art_specification"])
    fields = application(row) | {
        "claim": claim(row),
        "prior": patent(prior, with_claims=False) + f"\n\n{prior.get('specification') or ''}".rstrip(),
        "options": "\n".join(f"{number}: {options[number]}" for number in sorted(options)),
    }
    gold, silver = (sorted(map(int, listed(row[name]))) for name in ("gold_answers", "silver_answers"))
    return fields, json.dumps({"gold": gold, "silver": silver}), "with silver" if silver else "gold only"


def noc4pc(row: dict[str, Any]) -> tuple[dict[str, str], str, str]:
    """Fields, gold and group of a row."""
    answer = parsed(row["answer"])
    code = str(answer["code"] if isinstance(answer, dict) else answer).strip().upper()
    priors = [parsed(prior) for prior in parsed(row["prior_art_specifications"])]
    shown = [
        "\n".join([patent(prior), *(f"[{part['key']}] {part['content']}" for part in prior.get("paragraphs") or ())])
        for prior in priors
    ]
    return application(row) | {"claim": claim(row), "prior": "\n\n".join(shown) or "(none)"}, code, code


READERS = {"par4pc": par4pc, "pi4pc": pi4pc, "noc4pc": noc4pc}


def application(row: dict[str, Any]) -> dict[str, str]:
    """What is said of the application in every task."""
    context = parsed(row["context"])
    return {
        "application": str(row["application_number"]),
        "number": str(int(row["claim_number"])),
        "title": context.get("title") or "",
        "abstract": context.get("abstract") or "",
    }


def patent(fields: dict[str, Any], *, with_claims: bool = True) -> str:
    """Number, title, abstract and claims of an older patent."""
    lines = [
        f"{fields.get('patent_id') or ''} {fields.get('title') or ''}".strip(),
        f"Abstract: {fields.get('abstract') or ''}",
    ]
    return "\n".join([*lines, "Claims:", *claims(fields)] if with_claims else lines)


def claims(fields: dict[str, Any]) -> list[str]:
    """The claims as texts."""
    return [str(one["claim_text"] if isinstance(one, dict) else one) for one in fields.get("claims") or ()]


def claim(row: dict[str, Any]) -> str:
    """The claim in question: the one that begins with its number, else the one in its place, else all of them."""
    number, found = int(row["claim_number"]), claims(parsed(row["context"]))
    own = [text for text in found if re.match(rf"\s*{number}\s*\.", text)]
    return own[0] if own else found[number - 1] if number <= len(found) else "\n".join(found)


def parsed(value: Any) -> Any:
    """What a text says in JSON; other values as they are."""
    return json.loads(value) if isinstance(value, str) and value.lstrip()[:1] in ("{", "[") else value


def listed(value: Any) -> list[str]:
    """Answers from a list, or from a text with commas."""
    found = value.split(",") if isinstance(value, str) else value or ()
    return [str(one).strip() for one in found if str(one).strip()]
