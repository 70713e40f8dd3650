"""Whether a text really holds what a probe looks for: every sentence letter by letter, or all but one stretch that was cut."""

from __future__ import annotations

from collections.abc import Sequence

from tuneloop.tools.contamination.probes import LABEL, SAFE, SIZE, Probe

KEPT = (0.35, 0.5)  # of its letters that must be left when one sentence was cut, or several side by side
CUT = 12  # bytes of what may be called a cut sentence
ALIKE, GRAM = 0.15, 4  # share of a missing stretch's runs of letters beyond which it was changed, not cut


def holds(plain: str, within: str, probe: Probe) -> bool:
    """Whether the probe is among these letters; `within`: the same, merged."""
    text, spans = probe.text, probe.spans
    missing, most = [], (1 - min(KEPT)) * len(text)
    for i in probe.longest_first:
        begin, end = spans[i]
        if not _has_piece(plain, within, probe.plain, text, begin, end):
            missing.append(i)
            most -= end - begin
            if probe.whole or most < 0:  # more is missing than a cut could have taken
                return False
    if not missing:
        return True
    missing.sort()
    gone = slice(missing[0], missing[-1] + 1)
    long = [i for i in range(gone.start, gone.stop) if spans[i][1] - spans[i][0] >= SIZE]
    if not set(long) <= set(missing):
        return False
    size = spans[missing[-1]][1] - spans[missing[0]][0]
    if len(text) - size < KEPT[len(long) > 1] * len(text):
        return False
    return _is_cut(within, [text[begin:end] for begin, end in spans], gone)


def _has_piece(within: str, merged_within: str, plain: str, text: str, begin: int, end: int) -> bool:
    """Whether a sentence is there, letter by letter, and no number at its ends goes on."""
    at = merged_within.find(text[begin:end])
    while at >= 0:
        before, after = within[max(0, at - 1) : at], within[at + end - begin : at + end - begin + 1]
        if not (plain[begin].isdigit() and before.isdigit() and before != plain[max(0, begin - 1) : begin]) and not (
            plain[end - 1].isdigit() and after.isdigit() and after != plain[end : end + 1]
        ):
            return True
        at = merged_within.find(text[begin:end], at + 1)
    return False


def _is_cut(text: str, sentences: Sequence[str], gone: slice) -> bool:
    """Whether only this stretch of sentences is missing, enough is left, and nothing like it stands in its stead."""
    stretch, kept = "".join(sentences[gone]), [*sentences[: gone.start], *sentences[gone.stop :]]
    if len("".join(kept).encode()) < SAFE:
        return False
    if len(stretch.encode()) < CUT:
        return len(stretch) <= LABEL and not stretch.isdigit()
    for sentence in sorted(kept, key=len, reverse=True):
        text = text.replace(sentence, " ")
    wanted = _grams(stretch)
    return len(wanted & _grams(text)) < ALIKE * len(wanted)


def _grams(text: str) -> set[str]:
    return {gram for i in range(len(text) - GRAM + 1) if " " not in (gram := text[i : i + GRAM])}
