r"""The final number of a reply: in the last box, else after the last `####`, else the last one of the reply."""

from __future__ import annotations

from typing import Any

from ..answer_matching import box, normal, number, plain_number, unsigned, without_thoughts

READS = (
    r"the number in the last box, e.g. `\boxed{41}`, else after the last ####, else the last number of "
    r"the reply"
)


def judge(gold: str, reply: str) -> dict[str, Any]:
    """1 when the final number is the gold one, by value: signs of currency, commas and needless zeros do not matter."""
    found = final_number(reply)
    return {"parsed": found, "value": float(found is not None and found == plain_number(unsigned(gold)))}


def final_number(reply: str) -> str | None:
    """The number that counts, in normal form; None without any."""
    text = without_thoughts(reply)
    if text is None:
        return None
    behind = text.rpartition("####")[2].strip().partition("\n")[0] if "####" in text else ""
    return number_in(box(text) or "") or number_in(behind) or number(text)


def number_in(text: str) -> str | None:
    """The number that all of the text is, as in `- 5` and `12 500`, else its last one."""
    return plain_number(normal(text)) or number(text)
