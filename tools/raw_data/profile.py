"""Profile a raw data set against a benchmark: facts, no decisions, small enough to travel in a prompt."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tuneloop.core.catalog import Benchmark, Item
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.profile import Agreement, DatasetProfile, FieldProfile, Kind, SourceProfile
from tuneloop.core.records import text_of
from tuneloop.core.text import boxed, letter_in, plain_number, same_answer
from tuneloop.tools.raw_data import source_metrics
from tuneloop.tools.raw_data.benchmark_facts import benchmark_facts, length_percentiles, render
from tuneloop.tools.raw_data.contradictions import contradicted_shares
from tuneloop.tools.raw_data.fields import FieldColumn, RecordGroup, flatten, group_records
from tuneloop.tools.raw_data.files import iter_records, read_readme, record_files
from tuneloop.tools.raw_data.roles import find_reading
from tuneloop.tools.raw_data.similarity import BenchmarkTarget

SAMPLE = 8000
COLUMN_SAMPLE = 600
MOST_FIELDS, MOST_SOURCES, MOST_BYTES = 14, 12, 20_000
README = 1500  # characters


def profile_dataset(
    root: Path,
    benchmark: Benchmark,
    items: Sequence[Item],
    sample: int = SAMPLE,
    overlapping: Mapping[str, str] | None = None,
) -> DatasetProfile:
    """Facts about a data set (a folder or one file); of each file at most `sample` records are looked at.

    `overlapping`: file → numbers (from 1) of records that are known to hold a validation item.

    Only validation items may be given in `items`. Raises InvalidRequestError when a file cannot be read or none holds records.
    """
    files = record_files(root)
    if not files:
        raise InvalidRequestError(
            f"{root}: no JSON, JSONL, CSV, TSV, Parquet, Arrow or text file with records; right is a folder with some"
        )
    target = make_target(benchmark, items)
    known = overlapping or {}
    found = [measured for file in files for measured in profile_file(file, root, target, sample, known)]
    found.sort(key=lambda pair: -pair[0].similarity)
    profiles = tuple(profile for profile, _ in found[:MOST_SOURCES])
    agreements = cross_agreements([(p.name, rows) for p, rows in found[:MOST_SOURCES]])
    wrong = contradicted_shares(profiles, agreements)
    profiles = tuple(p.model_copy(update={"contradicted": wrong.get(p.name)}) for p in profiles)
    name = root.stem if root.is_file() else root.name
    card = read_readme(root)[:README]
    return shrink_profile(
        DatasetProfile(name=name, readme=card, benchmark=target.facts, sources=profiles, agreements=agreements)
    )


def make_target(benchmark: Benchmark, items: Sequence[Item]) -> BenchmarkTarget:
    """The benchmark's facts and texts, without the wording all items share."""
    facts = benchmark_facts(benchmark, items)
    texts = {
        "": [strip_frame(render(benchmark.prompt, i.fields), facts.prompt_prefix, facts.prompt_suffix) for i in items]
    }
    texts |= {name: [i.fields.get(name, "") for i in items] for name in facts.fields}
    return BenchmarkTarget(facts, texts, [i.answer.strip() for i in items])


def strip_frame(text: str, prefix: str, suffix: str) -> str:
    """The text without prefix and suffix."""
    return text.removeprefix(prefix).removesuffix(suffix) if suffix else text.removeprefix(prefix)


def profile_file(
    file: Path, root: Path, target: BenchmarkTarget, sample: int, overlapping: Mapping[str, str]
) -> list[tuple[SourceProfile, list[source_metrics.ProfiledRow]]]:
    """A profile for each group of records in a file."""
    stream = iter_records(file)
    seen = list(itertools.islice(stream, sample))
    rows = len(seen) + sum(1 for _ in stream)
    name = str(file.relative_to(root)) if file != root else file.name
    found = [profile_group(name, g, round(rows * len(g.records) / len(seen)), target) for g in group_records(seen)]
    held = {"overlapping": overlapping.get(name, "")}
    return [(profile.model_copy(update=held), rows_) for profile, rows_ in found]


def profile_group(
    file: str, group: RecordGroup, total: int, target: BenchmarkTarget
) -> tuple[SourceProfile, list[source_metrics.ProfiledRow]]:
    """Fields, the likeliest reading, and what is true under it."""
    some = group.records[:: max(1, len(group.records) // COLUMN_SAMPLE)][:COLUMN_SAMPLE]
    columns = make_columns(some)
    reading = find_reading(columns, target)
    rows = source_metrics.read_rows(group.records, reading, target)
    one, two, false, unfinished = source_metrics.equation_shares(rows)
    exact, near, repeated, differ = source_metrics.repetition_shares(rows)
    held = sum(row.name in target.prompts for row in rows)
    profile = SourceProfile(
        name=f"{file}#{group.where}" if group.where else file,
        file=file,
        where=group.where,
        rows=total,
        sampled=len(group.records),
        fields=tuple(field_profile(c, target) for c in columns[:MOST_FIELDS]),
        reading=reading,
        similarity=round(target.similarity([r.question for r in rows]), 3),
        answered=source_metrics.share_of(sum(r.answer is not None for r in rows), rows),
        worked=source_metrics.share_of(sum(map(source_metrics.has_solution, rows)), rows),
        equations=one,
        two_equations=two,
        spoken_equations=source_metrics.spoken_equations(rows),
        false_equations=false,
        unfinished=unfinished,
        chatter=source_metrics.chatter_share(rows),
        off_topic=source_metrics.off_topic_share(rows, target),
        exact_duplicates=exact,
        near_duplicates=near,
        repeated=repeated,
        disagreeing=differ,
        key_agreement=source_metrics.key_agreement(rows, target.facts.answer_shape),
        unlikely=source_metrics.unlikely_labels(rows, target),
        validation_overlap=source_metrics.share_of(held, rows),
        question_lengths=length_percentiles([r.question for r in rows]),
        solution_lengths=length_percentiles([r.solution for r in rows]),
        answers=source_metrics.top_answers(rows) if target.facts.answer_shape in ("letter", "label") else {},
    )
    return profile, rows


def make_columns(some: Sequence[dict[str, Any]]) -> list[FieldColumn]:
    """Every path that a few percent of the records have, in order of appearance."""
    values: dict[str, dict[int, Any]] = {}
    for i, record in enumerate(some):
        for path, value in flatten(record):
            values.setdefault(path, {})[i] = value
    enough = max(1, len(some) // 50)
    columns = [
        FieldColumn(path, [at.get(i) for i in range(len(some))]) for path, at in values.items() if len(at) >= enough
    ]
    return columns + [FieldColumn(f"{c.path}|join", [list_as_lines(v) for v in c.values]) for c in columns if c.steps]


def list_as_lines(value: Any) -> Any:
    """A list as lines."""
    return "\n".join(map(text_of, value)) if isinstance(value, list) else value


def field_profile(column: FieldColumn, target: BenchmarkTarget) -> FieldProfile:
    """Facts about one path."""
    texts = column.texts
    n = texts or [""]
    return FieldProfile(
        path=column.path,
        kind=kind_of(column),
        filled=source_metrics.share_of(len(texts), column.values),
        distinct=round(column.distinct, 3),
        lengths=length_percentiles(texts),
        examples=tuple(t[:100] for t in dict.fromkeys(texts[:2])),
        numeric=source_metrics.share_of(sum(plain_number(t) is not None for t in texts), n),
        letter=source_metrics.share_of(sum(len(t) < 4 and letter_in(t) is not None for t in texts), n),
        has_number=source_metrics.share_of(sum(any(c.isdigit() for c in t) for t in texts), n),
        boxed=source_metrics.share_of(sum(boxed(t) is not None for t in texts), n),
        similarity=round(target.similarity(texts), 3),
        answer_like=source_metrics.share_of(sum(target.is_answer(t) for t in texts), n),
    )


def kind_of(column: FieldColumn) -> Kind:
    """The type of the values that are there."""
    kinds = {type(v) for v in column.values if v is not None}
    if column.is_list:
        return "list"
    if kinds <= {str}:
        return "text"
    if kinds <= {bool}:
        return "bool"
    return "number" if kinds <= {int, float} else "mixed"


def cross_agreements(sources: Sequence[tuple[str, list[source_metrics.ProfiledRow]]]) -> tuple[Agreement, ...]:
    """For each two sources that share questions: how many, and on how many the final answers agree."""
    answers = [(name, {r.name: r.answer for r in rows if r.answer}) for name, rows in sources]
    found = []
    for (first, a), (second, b) in itertools.combinations(answers, 2):
        both = a.keys() & b.keys()
        if len(both) >= 5:
            agreeing = sum(same_answer(a[q], b[q]) for q in both)
            found.append(
                Agreement(
                    first=first,
                    second=second,
                    questions=len(both),
                    agreeing=round(agreeing / len(both), 3),
                    shared=round(len(both) / min(len(a), len(b)), 3),
                )
            )
    return tuple(found)


def shrink_profile(profile: DatasetProfile) -> DatasetProfile:
    """The profile with shorter examples, then fewer fields, until it is small enough to travel."""
    for cut in (60, 30, 0):
        if len(profile.model_dump_json().encode()) <= MOST_BYTES:
            break
        profile = shorten_profile(profile, cut)
    return profile


def shorten_profile(profile: DatasetProfile, cut: int) -> DatasetProfile:
    """Examples cut; with `cut` 0 only fields that play a part stay, and the README goes."""
    changed = []
    for s in profile.sources:
        parts = {*s.reading.question, *s.reading.fields.values(), s.reading.solution, s.reading.key, *s.reading.options}
        kept = [f for f in s.fields if cut or f.path in parts]
        fields = tuple(f.model_copy(update={"examples": tuple(e[:cut] for e in f.examples[:1] if cut)}) for f in kept)
        changed.append(s.model_copy(update={"fields": fields}))
    text = profile.readme[: 10 * cut]
    return profile.model_copy(update={"sources": tuple(changed), "readme": text})
