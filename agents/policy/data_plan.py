"""Data plans: the order of operations, how a plan is changed, and the sensible first plan for a profile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tuneloop.agents.policy.script_composer import FORM, READ, SELECT
from tuneloop.agents.policy.situation import DataSource, Situation, mean
from tuneloop.core.experiment import Step, Value

ORDER = (
    READ, "drop_unanswered", "drop_off_topic", "signs_for_words", "strip_chatter", "finish_steps", "repair_from_key",
    "trust_key", "drop_false_equations", "drop_contradicted", "keep_agreed", "drop_unlikely_labels", "require_steps",
    "keep_worked_or_bare", "rewrite_equations", "answer_only", "cap_length", "dedupe", "balance_answers", FORM, SELECT,
)  # fmt: skip
Plan = tuple[Step, ...]
TARGET_WORDS = 24


def find_step(plan: Sequence[Step], do: str) -> Step | None:
    """The plan's step of that kind."""
    return next((step for step in plan if step.do == do), None)


def without_steps(plan: Sequence[Step], *dos: str) -> Plan:
    """The plan less some operations."""
    return tuple(step for step in plan if step.do not in dos)


def with_step(plan: Sequence[Step], do: str, why: str, **options: Value | list[str]) -> Plan:
    """The plan with an operation in its place, in exchange for the one of the same kind."""
    return with_steps(plan, Step(do=do, why=why, options=options))


def with_steps(plan: Sequence[Step], *steps: Step) -> Plan:
    """The plan with each step in its place, in exchange for the one of the same kind."""
    kept = without_steps(plan, *(step.do for step in steps))
    return tuple(sorted((*kept, *steps), key=lambda step: ORDER.index(step.do)))


def followable(plan: Sequence[Step]) -> Plan:
    """What of a plan the policy can do; a chat model may have named steps in words of its own."""
    return tuple(s for s in plan if s.do in ORDER and (s.do != READ or {"dataset", "file"} <= s.options.keys()))


def solution_limit(plan: Sequence[Step], sources: Sequence[DataSource]) -> int:
    """Characters a solution may have; without a limit those that one in twenty exceeds."""
    step = find_step(plan, "cap_length")
    limit = step.options.get("solution") if step else None
    return limit if isinstance(limit, int) else max((s.profile.solution_lengths.p95 for s in sources), default=400)


def sources_in(plan: Sequence[Step], situation: Situation) -> list[DataSource]:
    """The sources a plan reads."""
    return [s for s in situation.sources if any(reads_source(step, s) for step in plan)]


def reads_source(step: Step, source: DataSource) -> bool:
    """Whether a step reads that source."""
    o, p = step.options, source.profile
    named = (source.dataset, p.file, p.where)
    return step.do == READ and (o.get("dataset"), o.get("file"), o.get("where", "")) == named


def with_sources(plan: Sequence[Step], sources: Iterable[DataSource]) -> Plan:
    """The plan over other sources."""
    reading = [read_step(s) for s in sources]
    return tuple(reading) + without_steps(plan, READ)


def read_step(source: DataSource) -> Step:
    """`use_source` with the field mapping of the profile."""
    p, r = source.profile, source.profile.reading
    options: dict[str, Value | list[str]] = {"dataset": source.dataset, "file": p.file, "where": p.where}
    if r.fields:
        options["fields"] = [f"{name}={path}" for name, path in r.fields.items()]
    else:
        options["question"] = list(r.question)
    options |= {"solution": r.solution or r.key or "", "key": (r.key or "") if r.solution else ""}
    options |= {"prefix": r.prefix, "suffix": r.suffix, "flag": r.flag}
    options["codes"] = [f"{code}={label}" for code, label in r.codes.items()]
    if r.options:
        options |= {"options": list(r.options), "index_base": -1 if r.index_base is None else r.index_base}
    why = f"{p.rows} rows, {describe_source(source)}"
    return Step(do=READ, why=why, options={k: v for k, v in options.items() if v not in ("", [])} | {"where": p.where})


def describe_source(source: DataSource) -> str:
    """What the profile says about a source, in a few words."""
    p = source.profile
    said = [f"{p.similarity:.2f} like the benchmark", "worked" if p.worked > 0.5 else "bare answers"]
    if p.key_agreement is not None:
        said.append(f"key agrees with {p.key_agreement:.0%}")
    if p.votes:
        said.append(f"several replies a question, {p.disagreeing:.0%} disagree")
    return ", ".join(said)


def candidate_sources(situation: Situation) -> list[DataSource]:
    """Sources on the benchmark's topic that hold answers of its shape, the likest first."""
    usable = [s for s in situation.sources if s.usable and s.fills(situation.facts) and s.profile.answered >= 0.15]
    top = max((s.profile.similarity for s in usable), default=0.0)
    near = [s for s in usable if s.profile.similarity >= 0.4 * top]
    return sorted(near, key=lambda s: (-s.profile.similarity, s.id))


def choose_sources(situation: Situation) -> list[DataSource]:
    """Undisputed first, worked before bare where steps help, equations before prose for a tiny model, then verifiable."""
    chosen = candidate_sources(situation)
    chosen = prefer_sources(chosen, [s for s in chosen if not s.disputed], situation)
    if chosen and wants_steps(situation):
        chosen = prefer_sources(chosen, [s for s in chosen if s.profile.worked >= 0.5], situation)
    if chosen and wants_steps(situation) and situation.card.tiny:
        chosen = prefer_sources(chosen, [s for s in chosen if s.equations >= 0.4], situation)
    sure = [s for s in chosen if s.verifiable]
    doubt = mean([s.noise for s in sure]) > 0.05
    if doubt and sum(map(clean_rows, sure)) >= situation.enough:
        chosen = [s for s in chosen if s.verifiable or s.confirmed or repeats_agree(s)]
    return chosen


def prefer_sources(chosen: list[DataSource], better: list[DataSource], situation: Situation) -> list[DataSource]:
    """The better ones where they have rows enough, else all."""
    return better if sum(map(clean_rows, better)) >= situation.enough / 2 else chosen


def repeats_agree(source: DataSource) -> bool:
    """Whether repeated questions confirm a source's answers; those that are only copied say nothing about them."""
    p = source.profile
    copied = p.disagreeing == 0 and p.repeated <= 2.5 * (p.exact_duplicates + p.near_duplicates) + 0.02
    return p.repeated > 0.05 and source.noise < 0.02 and not copied


def wants_steps(situation: Situation) -> bool:
    """Whether a reply may and should hold more than the answer."""
    return situation.facts.final.steps and situation.facts.answer_shape != "label"


def clean_rows(source: DataSource) -> float:
    """Different questions with a right answer, roughly."""
    return source.questions * (1 - source.noise)


def first_plan(situation: Situation, base_style: str) -> Plan:
    """What the profile asks for; every step says why."""
    chosen = choose_sources(situation)
    style = style_step(situation, chosen, base_style)
    steps = (*filter_steps(situation, chosen), *style, *final_steps(situation, chosen))
    return with_steps(with_sources((), chosen), *steps)


def filter_steps(situation: Situation, chosen: Sequence[DataSource]) -> list[Step]:
    """Steps that take wrong rows out, where the profile shows any."""
    profiles, facts = [s.profile for s in chosen], situation.facts
    steps = [Step(do="drop_unanswered", why=f"an answer is {facts.answer_shape}; rows without one teach nothing")]
    off = max((p.off_topic for p in profiles), default=0.0)
    if off > 0.02 and facts.least_words >= 1 and facts.items >= 50:
        steps.append(off_topic_step(situation, off))
    if (idle := max((p.chatter for p in profiles), default=0.0)) > 0.05:
        steps.append(Step(do="strip_chatter", why=f"{idle:.0%} of a source's replies begin or end with idle sentences"))
    return steps + equation_filter_steps(situation, chosen) + label_filter_steps(situation, chosen)


def equation_filter_steps(situation: Situation, chosen: Sequence[DataSource]) -> list[Step]:
    """Steps that look at a solution's equations alone."""
    steps = []
    if (false := max((s.profile.false_equations for s in chosen), default=0.0)) > 0.01:
        steps.append(Step(do="drop_false_equations", why=f"up to {false:.0%} of a source's rows hold a false equation"))
    unfinished = max((s.profile.unfinished for s in chosen), default=0.0)
    # Where most solutions of a source end so, it is how the source writes them.
    if 0.01 < unfinished < 0.5 and situation.facts.answer_shape in ("integer", "number"):
        why = f"up to {unfinished:.0%} of a source's solutions end with another number than their last step gives"
        steps.append(Step(do="finish_steps", why=why))
    return steps


def off_topic_step(situation: Situation, share: float) -> Step:
    """Keep rows whose question speaks like the benchmark."""
    why = f"up to {share:.0%} of a source's rows are off topic"
    words, least = list(situation.facts.words), situation.facts.least_words
    return Step(do="drop_off_topic", why=why, options={"words": words, "at_least": least})


def label_filter_steps(situation: Situation, chosen: Sequence[DataSource]) -> list[Step]:
    """Steps that compare answers with keys and with each other."""
    steps = []
    keyed = [s for s in chosen if s.profile.key_agreement is not None and s.profile.key_agreement < 0.995]
    if keyed:
        worst = min(s.profile.key_agreement or 0.0 for s in keyed)
        steps.append(Step(do="drop_contradicted", why=f"the key agrees with only {worst:.0%} of the solutions"))
        if wants_steps(situation) and any(s.equations > 0.5 for s in keyed):
            why = "a wrong sign in a chain can be found, as the key is known"
            steps.append(Step(do="repair_from_key", why=why, options={"at_least": 0.6}))
    differing = [s for s in chosen if s.profile.repeated * s.profile.disagreeing > 0.005]
    if differing or keyed:
        steps.append(agreement_step(chosen, "replies to the same question differ"))
    return steps


def agreement_step(chosen: Sequence[DataSource], why: str) -> Step:
    """`keep_agreed`: sources with several replies a question need two that agree."""
    need = sorted(s.id for s in chosen if s.profile.votes)
    return Step(do="keep_agreed", why=why, options={"votes": 2, "need_votes": need})


def style_step(situation: Situation, chosen: Sequence[DataSource], base_style: str) -> list[Step]:
    """How solutions are written: equation lines for a tiny model, the sources' own words for others."""
    if not wants_steps(situation):
        return []
    steps = []
    two = [s.equations for s in chosen]
    if chosen and min(two) < 0.97 and mean(two) > 0.5:
        why = "solutions without steps teach guessing"
        steps.append(Step(do="require_steps", why=why, options={"equations_at_least": 2}))
    elif any(s.profile.worked < 0.5 for s in chosen) and any(s.profile.worked >= 0.5 for s in chosen):
        steps.append(Step(do="keep_worked_or_bare", why="a worked solution teaches more than its bare answer"))
    if situation.card.tiny and mean(two) > 0.5:
        if any(s.profile.spoken_equations > 0.05 for s in chosen):
            steps.append(Step(do="signs_for_words", why="some solutions write their arithmetic in words"))
        steps.append(rewrite_step(base_style, "a tiny model learns bare equations more easily than prose"))
    return steps


def rewrite_step(base_style: str, why: str) -> Step:
    """`rewrite_equations`, spaced as the base model spaces equations itself."""
    return Step(do="rewrite_equations", why=why, options={"spacing": base_style or "compact"})


def final_steps(situation: Situation, chosen: Sequence[DataSource]) -> list[Step]:
    """Lengths, repeats, balance, form, choice."""
    steps = [Step(do="dedupe", why="a question twice is learned twice")]
    facts, task = situation.facts, situation.task
    per_token = 2.0 if situation.card.tiny else 3.0
    room = int(max(task.max_new_tokens * per_token, 40))
    longest = max((s.profile.solution_lengths.max for s in chosen), default=0)
    asked = situation.longest_question
    if longest > room or max((s.profile.question_lengths.max for s in chosen), default=0) > asked:
        why = f"a reply may have {task.max_new_tokens} tokens; what is longer is never finished"
        steps.append(Step(do="cap_length", why=why, options={"question": asked, "solution": room}))
    tops = [max(s.profile.answers.values()) for s in chosen if s.profile.answers]
    classes = max(2, len(facts.labels))
    if facts.answer_shape in ("letter", "label") and tops and max(tops) > 2.5 / classes and classes < 30:
        why = f"one answer makes {max(tops):.0%} of a source"
        steps.append(Step(do="balance_answers", why=why, options={"most": 2.0}))
    steps.append(Step(do=FORM, why=f"the scorer reads {task.answer}"))
    if facts.items >= 50 and len(facts.words) >= 10:
        words = [f"{word}={share}" for word, share in list(facts.words.items())[:TARGET_WORDS]]
        steps.append(Step(do=SELECT, why="as the benchmark's words ask for", options={"words": words}))
    return steps


def plan_fingerprint(plan: Sequence[Step], training: dict[str, Value]) -> str:
    """Equal for plans that would do the same."""
    steps = sorted(repr((step.do, sorted(step.options.items(), key=str))) for step in plan)
    return repr((steps, sorted(training.items(), key=str)))
