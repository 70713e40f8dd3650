"""Changes of the data plan: stricter filters, other sources, softer filters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tuneloop.agents.policy.data_engineer import SOFTEN
from tuneloop.agents.policy.data_plan import (
    Plan,
    agreement_step,
    candidate_sources,
    equation_filter_steps,
    find_step,
    label_filter_steps,
    style_step,
    wants_steps,
    with_sources,
    with_step,
    with_steps,
    without_steps,
)
from tuneloop.agents.policy.moves import Case, Move
from tuneloop.agents.policy.situation import DataSource, Situation, mean

EQUATION_FILTERS = {
    "drop_false_equations": ("noise.false_equations", "Rows with false equations go."),
    "finish_steps": ("noise.finish_steps", "Solutions without their last step get it, or go."),
}


def shown_doubt(source: DataSource, situation: Situation) -> float:
    """Share of a source's labels that may be wrong: shown, told by other sources, or as among those that show it."""
    if source.contradicted is not None and (source.disputed or not source.verifiable):
        return source.contradicted
    if source.verifiable:
        return source.noise
    if source.profile.unlikely is not None:
        return min(0.5, source.profile.unlikely)
    return max(source.noise, 0.8 * mean([s.noise for s in situation.sources if s.verifiable]))


def doubt_left(source: DataSource, plan: Plan, situation: Situation) -> float:
    """The share that the plan's filters leave: what a key, a vote or a classifier can find out they take away."""
    p, shown = source.profile, shown_doubt(source, situation)
    if source.disputed:
        return shown
    checks = (
        (p.key_agreement is not None, ("drop_contradicted", "trust_key")),
        (p.votes, ("keep_agreed",)),
        (p.unlikely is not None, ("drop_unlikely_labels",)),
    )
    found = next((dos for holds, dos in checks if holds), ())
    return min(shown, 0.03) if any(find_step(plan, do) for do in found) else shown


def mean_doubt(sources: Sequence[DataSource], plan: Plan, situation: Situation) -> float:
    """Mean by questions of the doubt that the plan leaves."""
    questions = sum(s.questions for s in sources)
    each = (doubt_left(s, plan, situation) for s in sources)
    return sum(d * s.questions for d, s in zip(each, sources, strict=True)) / questions if questions else 0.0


def filter_moves(case: Case) -> Iterator[Move]:
    """Stricter filters: rows that something speaks against go."""
    s, e = case.situation, case.evidence
    share = mean_doubt(case.sources, case.plan, s)
    why = f"{e.parsed:.0f} % of the answers can be read, {100 * case.room:.0f} % are wrong; {share:.0%} of the labels are in doubt"
    for step in equation_filter_steps(s, case.sources):
        if find_step(case.plan, step.do) is None:
            name, said = EQUATION_FILTERS[step.do]
            yield case.move(name, said, step.why, plan=with_steps(case.plan, step), strength=share)
    if missing := [f for f in label_filter_steps(s, case.sources) if find_step(case.plan, f.do) is None]:
        plan = with_steps(case.plan, *missing)
        said = f"Check labels: {', '.join(f.do for f in missing)}."
        yield case.move("noise.check_labels", said, why, plan=plan, strength=share)
    if s.facts.answer_shape in ("label", "letter") and find_step(case.plan, "drop_unlikely_labels") is None:
        plan = with_step(case.plan, "drop_unlikely_labels", why, folds=5, least=0.1)
        said = "Rows whose label other rows speak against go."
        yield case.move("noise.check_labels", said, why, plan=plan, strength=share)
    agree, unsure = find_step(case.plan, "keep_agreed"), [s for s in case.sources if not s.verifiable]
    if agree is not None and 0 < len(unsure) < len(case.sources):
        voted = {**agree.options, "need_votes": sorted(s.id for s in case.sources)}
        plan = with_step(case.plan, "keep_agreed", why, **voted)
        yield case.move("noise.confirmed", "Only rows that something confirms.", why, plan=plan, strength=share)
    keyed = any(s.profile.key_agreement is not None for s in case.sources)
    if keyed and find_step(case.plan, "trust_key") is None and not wants_steps(s):
        plan = with_step(without_steps(case.plan, "drop_contradicted"), "trust_key", why)
        said = "Where key and solution differ, the key is right."
        yield case.move("noise.trust_key", said, why, plan=plan, strength=share)


def source_moves(case: Case) -> Iterator[Move]:
    """Without each source, with each alone, with one more."""
    read = case.sources
    several = read if len(read) > 1 else []
    for source in several:
        rest = [other for other in read if other is not source]
        yield source_move(case, "noise.leave_out", f"Without {source.id}, {doubt_reason(source)}.", rest)
    for source in several:
        yield source_move(case, "noise.only", f"Only {source.id}.", [source])
    for source in unread_sources(case):
        yield source_move(case, "noise.other", f"Only {source.id}, which was left out.", [source])
        plan = with_source(case, source)
        yield source_move(case, "coverage.also", f"Also {source.id}.", [*read, source], plan)


def source_move(case: Case, kind: str, said: str, then: list[DataSource], plan: Plan | None = None) -> Move:
    """Other sources; `strength` is the doubt that they spare after the plan's filters."""
    s, plan = case.situation, plan or with_votes(case, then)
    left, then_left = mean_doubt(case.sources, case.plan, s), mean_doubt(then, plan, s)
    gone = max((one.contradicted or 0.0 for one in case.sources if one not in then), default=0.0)
    why = f"{left:.0%} of the labels are in doubt, {then_left:.0%} would be"
    move = case.move(kind, said, why, plan=plan, strength=left - then_left)
    return replace(move, contradicted=gone)


def doubt_reason(source: DataSource) -> str:
    """Why a source is doubted."""
    if source.disputed:
        return f"of which {source.contradicted:.0%} is wrong by what other sources say"
    if source.confirmed:
        return "which other sources confirm"
    if not source.verifiable:
        return "whose labels nothing confirms"
    return f"where {source.noise:.0%} of the labels disagree"


def unread_sources(case: Case) -> list[DataSource]:
    """Sources on the topic that the plan does not read, the least doubtful first.

    Where steps help and what is read has them, no bare answers: those teach to leave steps out.
    """
    used, stepless = {s.id for s in case.sources}, not wants_steps(case.situation)
    bare = stepless or any(s.profile.worked < 0.5 for s in case.sources)
    found = [s for s in candidate_sources(case.situation) if s.id not in used and (bare or s.profile.worked >= 0.5)]
    return sorted(found, key=lambda s: shown_doubt(s, case.situation))[:3]


def with_votes(case: Case, sources: list[DataSource]) -> Plan:
    """The plan over other sources, with the votes they need."""
    plan = with_sources(case.plan, sources)
    if find_step(plan, "keep_agreed") is not None:
        plan = with_steps(plan, agreement_step(sources, "replies to the same question differ"))
    if any(s.profile.key_agreement is not None for s in sources) and find_step(plan, "drop_contradicted") is None:
        plan = with_steps(plan, *label_filter_steps(case.situation, sources))
    return plan


def with_source(case: Case, source: DataSource) -> Plan:
    """The plan with one source more; words become signs where the others write equations."""
    plan = with_votes(case, [*case.sources, source])
    if find_step(plan, "rewrite_equations") and source.profile.spoken_equations > 0.05:
        plan = with_step(plan, "signs_for_words", "one source writes its arithmetic in words")
    if find_step(plan, "rewrite_equations") and source.equations < 0.97 and source.profile.worked > 0.5:
        plan = with_step(plan, "require_steps", "what could not be read as equations stays out", equations_at_least=2)
    bare = find_step(style_step(case.situation, [*case.sources, source], ""), "keep_worked_or_bare")
    return with_steps(plan, bare) if bare and find_step(plan, bare.do) is None else plan


def coverage_moves(case: Case) -> Iterator[Move]:
    """Few rows, or one-sided ones: balanced answers, softer filters."""
    e = case.evidence
    why = f"{e.rows} rows are left"
    if case.situation.facts.answer_shape in ("letter", "label"):
        said = "Every answer about as often as the others."
        one = f"{e.said.one_answer:.0%} of the failures say the same"
        plan = with_step(case.plan, "balance_answers", one, most=1.2)
        yield case.move("coverage.balance", said, one, plan=plan, strength=e.said.one_answer)
    if e.rows >= case.situation.task.row_limit:  # softer filters bring none that is kept
        return
    keyed = any(s.profile.key_agreement is not None for s in case.sources)
    doubt = mean_doubt(case.sources, case.plan, case.situation)
    for do in SOFTEN:
        if find_step(case.plan, do) and (keyed or do != "drop_contradicted"):  # without keys it drops nothing
            said, plan = f"Without {do}, which costs rows.", without_steps(case.plan, do)
            spared = doubt - mean_doubt(case.sources, plan, case.situation)
            yield case.move(f"coverage.without_{do}", said, why, plan=plan, strength=spared)
