"""What the benchmark's validation items look like: common wording, shape of answers, options, telling words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from tuneloop.core.catalog import Benchmark, Item
from tuneloop.core.profile import BenchmarkFacts, ItemField, Lengths, OptionStyle, Shape
from tuneloop.core.text import letter_in, plain_number, tokens
from tuneloop.tools.raw_data.answer_form import final_form

MARK = re.compile(r"(^|[\n ])([(\[]?)([A-J])([).:\]]{1,2} ?)(?=\S)", re.MULTILINE)
MOST_LABELS = 60
MOST_WORDS = 48
LONGEST = 80  # characters of an answer that is shown


def render(template: str, fields: dict[str, str]) -> str:
    """The template with the item's fields filled in; other braces stay."""
    names = "|".join(re.escape(name) for name in sorted(fields, key=len, reverse=True))
    return re.sub(rf"\{{({names})\}}", lambda match: fields[match[1]], template) if names else template


def length_percentiles(texts: Sequence[str]) -> Lengths:
    """Median, 95th percentile and maximum of the characters."""
    sizes = sorted(map(len, texts)) or [0]
    return Lengths(p50=sizes[len(sizes) // 2], p95=sizes[min(len(sizes) - 1, int(0.95 * len(sizes)))], max=sizes[-1])


def shared_start(texts: Sequence[str]) -> str:
    """The longest text all begin with."""
    low, high = min(texts), max(texts)
    return low[: next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))]


def common_ends(texts: Sequence[str]) -> ItemField:
    """What all texts begin and end with, by chance or by design; where much stands between, whole sentences only."""
    if len(texts) < 3:
        return ItemField(prefix="", suffix="")
    if len(set(texts)) == 1:
        return ItemField(prefix=texts[0], suffix="", constant=True)
    prefix = shared_start(texts)
    prefix = prefix[: max((m.end() for m in re.finditer(r"\s+|[:：]\s*", prefix)), default=0)]
    suffix = shared_start([text[len(prefix) :][::-1] for text in texts])[::-1]
    between = sorted(len(text[len(prefix) : len(text) - len(suffix)].split()) for text in texts)
    if between[len(between) // 2] <= 3:
        return ItemField(prefix=prefix, suffix=suffix)
    prefix = prefix[: max((m.end() for m in re.finditer(r"\n+|[:：.?!>]\s+[\"'“«(\[<]*", prefix)), default=0)]
    starts = [m.start() for m in re.finditer(r"\s", suffix)] if suffix.strip() else []
    return ItemField(prefix=prefix, suffix=sentence_only(suffix[starts[0] :] if starts else ""))


def common_frame(texts: Sequence[str]) -> ItemField:
    """What at least nine in ten texts begin and end with; whole sentences or lines only."""

    def most(sides: Sequence[str]) -> list[str]:
        ordered = sorted(sides)
        spare = len(ordered) // 20
        return ordered[spare : len(ordered) - spare]

    if len(texts) < 20:
        return ItemField(prefix="", suffix="")
    first = common_ends(most(texts)).prefix
    last = common_ends([side[::-1] for side in most([text[::-1] for text in texts])]).suffix
    return ItemField(prefix=first, suffix=last)


def sentence_only(suffix: str) -> str:
    """A suffix that begins inside a sentence all questions end with by chance is cut to the next line or sentence."""
    if suffix[:1] == "\n" or (re.match(r"\s[A-Z(\[]", suffix) and suffix.count(" ") > 2):
        return suffix
    border = re.search(r"\n", suffix) or re.search(r"(?<=[.?!])\s(?=\S+\s\S)", suffix)
    return suffix[border.start() :] if border else ""


def answer_shape(benchmark: Benchmark, answers: Sequence[str]) -> tuple[Shape, tuple[str, ...]]:
    """The shape, and the labels where answers are few and repeat."""
    if benchmark.answer == "choice" or all(re.fullmatch(r"\(?[A-J]\)?", a.strip()) for a in answers):
        return "letter", tuple(sorted({letter_in(a) or a for a in answers}))
    plain = [plain_number(a) if "/" not in a else None for a in answers]
    if all(plain):
        return ("number" if any("." in str(p) for p in plain) else "integer"), ()
    distinct = Counter(a.strip() for a in answers)
    few = len(distinct) <= min(MOST_LABELS, max(2, len(answers) // 3)) and len(answers) >= 6
    return ("label", tuple(sorted(distinct))) if few else ("text", ())


def option_style(prompts: Sequence[str]) -> OptionStyle | None:
    """How options stand in most of the prompts; None when they do not."""
    found = [s for s in map(prompt_option_style, prompts) if s]
    if not found or len(found) < 0.7 * len(prompts):
        return None
    mark, separator, lead = Counter((s.mark, s.separator, s.lead) for s in found).most_common(1)[0][0]
    return OptionStyle(mark=mark, separator=separator, lead=lead, count=max(s.count for s in found))


def prompt_option_style(prompt: str) -> OptionStyle | None:
    """The style of one prompt: marks A, B, C… in order."""
    run: list[re.Match[str]] = []
    for m in MARK.finditer(prompt):
        if m[3] == chr(ord("A") + len(run)):
            run.append(m)
    if len(run) < 2:
        return None
    first, second = run[0], run[1]
    gap = prompt[: second.start(2)]
    separator = gap[len(gap.rstrip()) :]
    head = prompt[: first.start(2)]
    line = re.search(r"(\n[^\n]{0,30}:)?\s*$", head)
    lead = line[0] if line else "\n"
    return OptionStyle(mark=f"{first[2]}{{}}{first[4]}", separator=separator, lead=lead, count=len(run))


def distinguishing_words(prompts: Sequence[str]) -> tuple[dict[str, float], int]:
    """Words that some prompts hold and others do not, the most even first; and how many of them nearly every prompt holds."""
    holds = [set(tokens(p)) for p in prompts]
    counts = Counter(word for words in holds for word in words)
    n = max(1, len(prompts))
    # Words were counted from sets: ties go by the word, so that every process says the same.
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    chosen = [w for w, c in ranked[: 4 * MOST_WORDS] if c >= max(2, 0.03 * n)]
    even = [w for w in chosen if counts[w] <= 0.97 * n and w != "#"][:MOST_WORDS]
    least = sorted(len(words & set(even)) for words in holds)[int(0.02 * n)] if holds else 0
    return {w: round(counts[w] / n, 3) for w in even}, max(0, min(least, 6) // 2)


def benchmark_facts(benchmark: Benchmark, items: Sequence[Item]) -> BenchmarkFacts:
    """Facts about the items shown."""
    prompts = [render(benchmark.prompt, item.fields) for item in items]
    answers = [item.answer for item in items]
    examples = list(dict.fromkeys(answer[:LONGEST] for answer in answers))[:8]
    read = [answer for answer in examples if len(answer) < LONGEST]
    shape, labels = answer_shape(benchmark, answers) if answers else ("text", ())
    values = [float(str(plain_number(a))) for a in answers] if shape in ("integer", "number") else []
    used = [name for name in (items[0].fields if items else {}) if f"{{{name}}}" in benchmark.prompt]
    ends = {name: common_ends([item.fields.get(name, "") for item in items]) for name in used}
    whole = common_ends(prompts)
    bare = [p[len(whole.prefix) : len(p) - len(whole.suffix)] for p in prompts]
    words, least = distinguishing_words(bare)
    return BenchmarkFacts(
        items=len(items),
        answer_shape=shape,
        answer_low=min(values, default=None),
        answer_high=max(values, default=None),
        labels=labels,
        answer_examples=tuple(examples),
        final=final_form(benchmark, f"{whole.prefix}\n{whole.suffix}", read),
        prompt_prefix=whole.prefix,
        prompt_suffix=whole.suffix,
        prompt_lengths=length_percentiles(prompts),
        fields=ends,
        options=option_style(prompts),
        words=words,
        least_words=least,
    )
