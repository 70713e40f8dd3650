"""Changes of the data plan that evidence can ask for: less noise, more coverage."""

from __future__ import annotations

from collections.abc import Iterator

from tuneloop.agents.policy.data_engineer import SOFTEN
from tuneloop.agents.policy.data_plan import (
    Plan,
    agreement_step,
    candidate_sources,
    find_step,
    label_filter_steps,
    style_step,
    wants_steps,
    with_sources,
    with_step,
    without_steps,
)
from tuneloop.agents.policy.moves import Case, Move, mean_noise, residual_noise
from tuneloop.agents.policy.situation import DataSource


def noise_moves(case: Case) -> Iterator[Move]:
    """Right form, wrong answers, and data that disagree: stricter filters, then fewer sources, then other trust."""
    left, e, s = mean_noise(case), case.evidence, case.situation
    if e.parsed < 60:
        return
    weight = min(1.0, 3.5 * left) * min(1.0, 0.3 + 1.5 * case.room)
    why = f"{e.parsed:.0f} % of the answers can be read, {100 * case.room:.0f} % are wrong; {left:.0%} of the labels may be wrong"
    missing = [f for f in label_filter_steps(s, case.sources) if find_step(case.plan, f.do) is None]
    if (
        any(p.profile.false_equations > 0.01 for p in case.sources)
        and find_step(case.plan, "drop_false_equations") is None
    ):
        plan = with_step(case.plan, "drop_false_equations", why)
        yield case.move("noise", weight, "Rows with false equations go.", why, plan)
    if missing:
        plan = case.plan
        for step in missing:
            plan = with_step(plan, step.do, step.why, **step.options)
        yield case.move("noise", weight + 0.1, f"Check labels: {', '.join(f.do for f in missing)}.", why, plan)
    yield from doubtful_sources(case, weight, why)
    if s.facts.answer_shape in ("label", "letter") and find_step(case.plan, "drop_unlikely_labels") is None:
        plan = with_step(case.plan, "drop_unlikely_labels", why, folds=5, least=0.1)
        yield case.move(
            "noise", max(weight, 0.3 * case.room), "Rows whose label other rows speak against go.", why, plan
        )
    yield from change_authority(case, max(weight, 0.25 * case.room), why)


def doubtful_sources(case: Case, weight: float, why: str) -> Iterator[Move]:
    """Without the source that brings most wrong labels; and with confirmed rows only."""
    ranked = sorted(case.sources, key=lambda s: -residual_noise(s, case))
    if len(ranked) > 1 and residual_noise(ranked[0], case) > 0.04:
        worst = ranked[0]
        plan = with_votes(case, ranked[1:])
        less = 0.9 if sum(s.questions for s in ranked[1:]) >= 200 else 0.4
        yield case.move("noise", weight * less, f"Without {worst.id}, {doubt_reason(worst)}.", why, plan)
    agree = find_step(case.plan, "keep_agreed")
    open_sources = [s for s in case.sources if not s.verifiable]
    if agree is not None and open_sources and len(open_sources) < len(case.sources):
        options = {**agree.options, "need_votes": [s.id for s in case.sources]}
        plan = with_step(case.plan, "keep_agreed", why, **options)
        yield case.move("noise", 0.8 * weight, "Only rows that something confirms.", why, plan)


def doubt_reason(source: DataSource) -> str:
    """Why a source is doubted."""
    if source.contradicted > 0.1:
        return f"which every other source contradicts on {source.contradicted:.0%} of the questions they share"
    return (
        "whose labels nothing confirms" if not source.verifiable else f"where {source.noise:.0%} of the labels disagree"
    )


def change_authority(case: Case, weight: float, why: str) -> Iterator[Move]:
    """Another authority: the key instead of the solution, one source instead of several, the sources left out."""
    keyed = [s for s in case.sources if s.profile.key_agreement is not None]
    if keyed and find_step(case.plan, "trust_key") is None and not wants_steps(case.situation):
        plan = with_step(without_steps(case.plan, "drop_contradicted"), "trust_key", why)
        yield case.move("noise", 0.5 * weight, "Where key and solution differ, the key is right.", why, plan)
    for source in sorted(case.sources, key=lambda s: residual_noise(s, case)) if len(case.sources) > 1 else ():
        yield case.move("noise", 0.35 * weight, f"Only {source.id}.", why, with_votes(case, [source]))
    for source in unread_sources(case):
        plan = with_votes(case, [source])
        yield case.move("noise", 0.3 * weight, f"Only {source.id}, which was left out.", why, plan)


def unread_sources(case: Case) -> list[DataSource]:
    """Sources on the topic that the plan does not read, the least doubtful first."""
    used = {s.id for s in case.sources}
    return sorted(
        (s for s in candidate_sources(case.situation) if s.id not in used), key=lambda s: residual_noise(s, case)
    )


def with_votes(case: Case, sources: list[DataSource]) -> Plan:
    """The plan over other sources, with the votes they need."""
    plan = with_sources(case.plan, sources)
    if find_step(plan, "keep_agreed") is not None:
        step = agreement_step(sources, "replies to the same question differ")
        plan = with_step(plan, step.do, step.why, **step.options)
    if any(s.profile.key_agreement is not None for s in sources) and find_step(plan, "drop_contradicted") is None:
        for step in label_filter_steps(case.situation, sources):
            plan = with_step(plan, step.do, step.why, **step.options)
    return plan


def coverage_moves(case: Case) -> Iterator[Move]:
    """Few rows, or one-sided ones: softer filters, more sources."""
    e, s = case.evidence, case.situation
    short = max(0.0, 1 - e.rows / max(1, s.enough))
    one_sided = e.said.one_answer > 0.6 and s.facts.answer_shape in ("letter", "label")
    weight = (0.9 * short + 0.5 * one_sided + 0.08) * min(1.0, 0.3 + 1.5 * case.room)
    why = f"{e.rows} rows are left" + (
        f", and {e.said.one_answer:.0%} of the failures say the same" if one_sided else ""
    )
    if one_sided:
        plan = with_step(case.plan, "balance_answers", why, most=1.2)
        yield case.move("coverage", weight, "Every answer about as often as the others.", why, plan)
    for i, source in enumerate(unread_sources(case)[:3]):
        plan = with_source(case, source)
        less = (1.0 if residual_noise(source, case) < 0.1 else 0.6) * 0.9**i
        yield case.move("coverage", weight * less, f"Also {source.id}.", why, plan)
    for i, do in enumerate(do for do in SOFTEN if find_step(case.plan, do)):
        yield case.move(
            "coverage", weight * 0.85 * 0.9**i, f"Without {do}, which costs rows.", why, without_steps(case.plan, do)
        )


def with_source(case: Case, source: DataSource) -> Plan:
    """The plan with one source more; words become signs where the others write equations."""
    plan = with_votes(case, [*case.sources, source])
    if find_step(plan, "rewrite_equations") and source.profile.spoken_equations > 0.05:
        plan = with_step(plan, "signs_for_words", "one source writes its arithmetic in words")
    if find_step(plan, "rewrite_equations") and source.equations < 0.97 and source.profile.worked > 0.5:
        plan = with_step(plan, "require_steps", "what could not be read as equations stays out", equations_at_least=2)
    for step in style_step(case.situation, [*case.sources, source], ""):
        if find_step(plan, step.do) is None and step.do == "keep_worked_or_bare":
            plan = with_step(plan, step.do, step.why, **step.options)
    return plan
