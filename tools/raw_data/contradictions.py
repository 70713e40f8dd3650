"""How many answers of a source are wrong, by how often sources agree on the questions that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tuneloop.core.profile import Agreement, SourceProfile

LEAST_SHARED = 20  # questions that tell something
COPIED = 0.995  # agreement on most of what a source has, that tells nothing
SHARED = 0.02  # of the questions looked at; what shares less may do so by chance
ALIKE = 0.5  # of two wrong answers to a question: they come from the same mistake
USUAL, TRUST = 0.9, 0.1  # right answers of a source of which nothing is known, and what that weighs beside an agreement


def contradicted_shares(sources: Sequence[SourceProfile], agreements: Sequence[Agreement]) -> dict[str, float]:
    """Source → share of wrong answers by which its agreements with others are explained; without those that share nothing.

    Least squares: two sources agree where both are right, or wrong alike. Where a source has several replies a question, these
    say how good they are, and what their vote leaves is what counts. A source that always agrees with another on most of its
    questions may be a copy of it, which says nothing.
    """
    known = {s.name: s for s in sources}
    pairs = [a for a in agreements if a.questions >= LEAST_SHARED and {a.first, a.second} <= {*known}]
    pairs = [a for a in pairs if not may_be_copied(a, known[a.first], known[a.second])]
    right = {name: reply_accuracy(known[name]) for a in pairs for name in (a.first, a.second)}
    before = {name: (share, 1.0 if known[name].votes else TRUST) for name, share in right.items()}
    for _ in range(40):
        # All at once and by half: of two that contradict each other alone neither is believed for coming first.
        right = {name: (right[name] + _fitted(name, before[name], pairs, right)) / 2 for name in right}
    return {name: round(1 - (voted(share) if known[name].votes else share), 2) for name, share in right.items()}


def may_be_copied(pair: Agreement, first: SourceProfile, second: SourceProfile) -> bool:
    """Whether one has most of its questions from the other, or both from a third, with the answers.

    Of a large source only a sample was looked at, so that of a copy only that part is found in it.
    """
    larger = max(first, second, key=lambda source: source.rows)
    return pair.agreeing >= COPIED and pair.shared > max(SHARED, larger.sampled / max(1, larger.rows) / 2)


def _fitted(name: str, before: tuple[float, float], pairs: Sequence[Agreement], right: Mapping[str, float]) -> float:
    """Share of right replies of one source where the others' are known."""
    share, weight = before
    above, below = weight * share, weight
    for pair in pairs:
        if name in (pair.first, pair.second):
            other = right[pair.second if name == pair.first else pair.first]
            alike = ALIKE * (1 - other)
            above += (pair.agreeing - alike) * (other - alike)
            below += (other - alike) ** 2
    return min(0.99, max(0.05, above / below))


def reply_accuracy(profile: SourceProfile) -> float:
    """Share of right replies: of three to a question, all are right as often as they agree."""
    return float((1 - profile.disagreeing) ** (1 / 3)) if profile.votes else USUAL


def voted(right: float) -> float:
    """Share of right answers among those that two replies give."""
    return right**2 / (right**2 + ALIKE * (1 - right) ** 2)
