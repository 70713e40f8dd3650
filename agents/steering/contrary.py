"""Words that say the contrary of what a clause is like, or that it is told and not wished: then it is none of that kind."""

from __future__ import annotations

import re

ON = re.compile(
    r"\b(?:not|never|no|nothing|nobody)\b.*\bwithout (?:\w+ ){0,2}(?:me|my|asking|approval|ok|okay|permission)\b|"
    r"\bwithout (?:my|asking)\b.*\b(?:nothing|nobody|no one|not|never|no)\b|"
    r"\b(?:not|never) (?:\w+ )?(?:stop asking|skip|bypass|turn|switch|drop|omit|lift|end)\b|"
    r"^(?:keep|continue|go on|carry on) (?:asking|approv)|\b(?:approv\w*|stays?|keep \w+) on$|is off$|\bnot approve|"
    r"^(?:do i|does|is it|can i|how|why|what)\b"
)
END = re.compile(
    r"\b(?:not|never|no need|no reason|nobody|no one|must not|wrong)\b(?: (?!wait|stop$)\w+){0,4} "
    r"(?:paus\w*|halt|suspend|interrupt|stop|finish|end|wrap|conclude|terminate|close|call it|(?:the )?last)\b|"
    r"^(?:why|how)\b|\b(?:said|thought|expected|supposed|promised|wrote|had asked|yesterday)\b|"
    r"\b(?:go on|start the next|keep (?:searching|going|trying))\b"
)
LATER = re.compile(r"\bin <t|\bat <n|\b(?:tomorrow|tonight|midnight|noon|later today)\b")
BACK = re.compile(
    r"^(?:remember|keep|did|have you|who|is|does|you (?:forgot|ignored|seem))\b|"
    r"\b(?:not|never) (?:\w+ )?(?:undo|revoke|take|forget|lift|drop|ignore|withdraw|cancel|scrap|go$|be lifted|lifted|forgotten)\b|"
    r"\b(?:stays?|still|has to stay|does apply)\b|\b(?:all|every\w*)\b.* (?:but|except)\b"
)
WHEN = re.compile(
    r"\b(?:when|once|as soon as|after|until|till|the (?:day|moment|minute)|nobody|no one|refuse|rather than|hate|kidding|joke|"
    r"afraid|resist|could|might|will|would|wants|wanted|wrote|says|said|mention|myself|some ?day|later|tomorrow|"
    r"next (?:week|month)|far be it|permission)\b|^(?:why|was i|did)\b"
)
NO_MORE = re.compile(
    r"\b(?:not|never|no|refuse|nobody|without)\b(?! (?:less|fewer|problem|worr|rush|hurry|objection))(?!.*\b(?:problem|need))"
)
FREED = re.compile(
    r"\b(?:need not|not (?:have|need) to|not (?:really )?mind|afraid|no problem|not (?:limit|cap|restrict)|"
    r"no longer (?:required|needed|necessary))\b"
)
CHANGED = re.compile(r"\b(?:chang(?:e|ing)|touch|unlock|alter|modify|tune|vary|not happy)\b")
HELD = re.compile(
    r"\b(?:not|never|no|nobody|without|hands off|alone|except|but|apart from|stop|avoid|refrain|keep|leave|quit|dare|than|"
    r"instead of|unwise|stay\w*|remain\w*|(?:as|how) it is|same|unchanged|fixed|constant|hold|freeze|lock|pin|sacred|taboo|"
    r"forbid\w*|off)\b"
)
LET_IN = re.compile(r"\b(?:keep|leave \w*(?: \w+)? in|including|more of|as well|too)\b")
OUT = re.compile(r"\b(?:not|never|no|out|away|without|off|none|stop|nothing)\b")
NOT_ONLY = re.compile(r"\b(?:not|never)\b.*\bonly\b")
NOT_WITHOUT = re.compile(
    r"\b(?:not|never|no)\b(?:.*\b(?:but|without|other than|except|besides)\b|(?: \w+){0,2} (?:leave|exclude|drop|skip)\b)"
)


def contrary(kind: str, text: str) -> bool:  # noqa: PLR0911 - one line a kind
    """Whether the clause's words speak against the kind."""
    match kind:
        case "approve_none":
            return ON.search(text) is not None
        case "finish":
            return END.search(text) is not None
        case "pause":
            return END.search(text) is not None or LATER.search(text) is not None
        case "revoke" | "revoke_newest":
            return BACK.search(text) is not None
        case "delete" | "publish":
            return WHEN.search(text) is not None
        case "more":
            return NO_MORE.search(text) is not None
        case "at_most" | "at_least" | "bound_both":
            return FREED.search(text) is not None
        case "keep":
            return CHANGED.search(text) is not None and HELD.search(text) is None
        case "never":
            return (LET_IN.search(text) is not None and OUT.search(text) is None) or NOT_WITHOUT.search(
                text
            ) is not None
        case "only":
            return NOT_ONLY.search(text) is not None
    return False
