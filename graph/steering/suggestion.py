"""Suggest the nearest command for other text, by similarity to its name and example phrases."""

from __future__ import annotations

from tuneloop.core.commands import BY_NAME, COMMANDS, CommandSpec, find_command

SIMILAR = 72  # of 100: rapidfuzz's similarity from which a command is suggested


def suggest(text: str) -> tuple[str, CommandSpec | None]:
    """The nearest command: its text if it is complete, else "", and its specification; None without a similar one."""
    from rapidfuzz import fuzz, process, utils  # takes 40 ms, and is rarely needed

    word, _, rest = text.strip().removeprefix("/").partition(" ")
    if slip := process.extractOne(word.lower(), list(BY_NAME), scorer=fuzz.ratio, score_cutoff=SIMILAR):
        for whole in (f"{slip[0]} {rest}".strip(), slip[0]):
            if find_command(whole):
                return whole, BY_NAME[slip[0]]
    phrases = {phrase: spec for spec in COMMANDS for phrase in spec.phrases}
    found = process.extractOne(
        text, list(phrases), scorer=fuzz.token_set_ratio, processor=utils.default_process, score_cutoff=SIMILAR
    )
    if found is None:
        return "", BY_NAME[slip[0]] if slip else None
    spec = phrases[found[0]]
    return (spec.name if find_command(spec.name) else ""), spec
