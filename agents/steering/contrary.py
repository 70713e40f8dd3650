"""Words that say the contrary of what a clause is like, or that it is told and not wished: then it is none of that kind."""

from __future__ import annotations

import re

ON = re.compile(
    r"\b(?:not|never|no|nothing|nobody)\b.*\bwithout (?:\w+ ){0,2}(?:me|my|asking|approval|ok|okay|permission)\b|"
    r"\bwithout (?:my|asking)\b.*\b(?:nothing|nobody|no one|not|never|no)\b|"
    r"\b(?:not|never) (?:\w+ )?(?:stop asking|skip|bypass|turn|switch|drop|omit|lift|end)\b|"
    r"^(?:keep|continue|go on|carry on) (?:asking|approv)|\b(?:approv\w*|stays?|keep \w+) on$|is off$|\bnot approve|"
    r"^(?:do i|does|is it|can i|how|why|what)\b|\b(?:only|except|apart from)\b|\bno need to (?:stop|pause|finish|end)\b"
)
END = re.compile(
    r"\b(?:not|never|no need|no reason|nobody|no one|must not|wrong)\b(?: (?!wait|stop$)\w+){0,4} "
    r"(?:paus\w*|halt|suspend|interrupt|stop|finish|end|wrap|conclude|terminate|close|call it|(?:the )?last)\b|"
    r"^(?:why|how|shall|should|no (?:stop|paus)\w*)\b|\bnot (?:needed|necessary|required)\b|\bunnecessary\b|"
    r"\bbefore (?:you|we|it|the \w+) runs? out\b|\b(?:said|thought|expected|supposed|promised|wrote|had asked|yesterday)\b|"
    r"\b(?:go on|start the next|keep (?:searching|going|trying))\b"
)
LATER = re.compile(
    r"\bin <t|\bat <n|\b(?:tomorrow|midnight|noon|later today|(?<!for )tonight|one day|some ?day|eventually|perhaps)\b"
)
UNASKED = re.compile(
    r"\b(?:not|never|stop|quit|without) (?:\w+ ){0,3}(?:asking|approving|want to (?:approve|see|be asked))\b|"
    r"\bnot (?:want|like|need) to (?:approve|be asked|see|check)\b|"
    r"\b(?:not|never|no need to|stop) (?:\w+ )?(?:ask|consult|check with|bother|need to (?:see|ask|approve|check))\b|"
    r"\bin advance\b|\balone\b|\bas you (?:like|please|wish)\b"
)
HATED = re.compile(
    r"\b(?:hate|hated|dislike|detest|loathe|sick of|tired of|forbid\w*|banned|vetoed|slow|breaks?|broke|hurts?|crash\w*|worse|"
    r"fail\w*|diverg\w*|explod\w*|out of memory|bad idea|done with|had enough|forget|scratch)\b|"
    r"^(?:you (?:tried|used|are using)|they|we (?:tried|used)|the (?:paper|docs?)|others|most people|everyone|last time)\b"
)
NOT_BAD = re.compile(
    r"\b(?:not|never) (?:hurt\w*|fail\w*|too (?:many|much|high|big|large|low|few|small)|mind|bad|opposed|enough)\b|"
    r"\bbetter than\b|\bno (?:objection|problem)\b|\b(?:is|are) (?:ok|okay|great|good|fine)\b"
)
ASKED = re.compile(
    r"^(?:is|are|was|were|does|did|do (?:you|we|i|it)|has|have (?:you|we)|had|must (?:i|you|we|it)|who|when|where|which|"
    r"what (?!about|if)|why (?!not)|how (?!about))\b"
)
LEAVE = r"\b(?:free|may|can|allowed|ok|okay|fine) to\b.*"
UNPRAISED = r"\b(?!.*\b(?:fine|ok|okay|good|works|allowed|goes|welcome)\b)"
FREE_UP = re.compile(
    rf"{LEAVE}\b(?:higher|above|over|beyond|past|exceed)\b|^anything (?:above|over|beyond|past|higher|greater|more){UNPRAISED}"
)
FREE_DOWN = re.compile(
    rf"{LEAVE}\b(?:lower|below|under|beneath)\b|^anything (?:below|under|beneath|lower|less){UNPRAISED}"
)
LET_BACK = re.compile(
    r"\b(?:back|again|after all|welcome|allowed|permi\w+|return|may be used|ok(?:ay)? now|stop (?:\w+ )?(?:leav|exclud|skip)\w+)\b"
)
ALL_ELSE = re.compile(r"\belse\b|\bfull list\b|\bentitled\b|\bback in\b")
STILL_OUT = re.compile(  # the contrary of leaving out, or told of it
    r"\b(?:no|not|never|stop|avoid|refuse|without)\b(?: \w+){0,3} (?:skip\w*|exclu\w+|leav\w+|left|drop\w*|ignor\w+|omit\w*|"
    r"forget|neglect|lose|embargo|ban\w*|restrict\w*|forbid\w*|block\w*|mind|against|opposed|bad|problem|worse|got)\b|"
    r"\b(?:mistake|worse|helped)\b|\b(?:is|are) (?:fine|ok|okay|great|good)\b|^(?:you|it was)\b|\byes\b|"
    r"\b(?:ignore|drop|exclude|remove|skip|discard|leave out|avoid)\b.*\b(?:but|except|other than|apart from)\b"
)
BLAMED = re.compile(
    r"\b(?:not|never)\b.*\b(?:alone|just)\b|^leave\b.*\balone\b|\bthe only\b|"
    r"\b(?:only|just|alone|nothing but)\b.*\b(?:bad|noisy|wrong|errors?|problems?|trouble|broken|useless|dirty|not)\b"
)
HALF_WAY = re.compile(
    r"\b(?:full|non-?|bus) ?stop\b|\bstop (?:nothing|early|not)\b|\b(?:cancel|undo|no) the (?:pause|stop)\b|\blater\b|"
    r"\bstop (?!training\b|working\b|running\b|everything\b|trying\b|searching\b)\w+ing\b|\bwhen (?:it is )?done\b|"
    r"^(?:what|will|it|when)\b"
)
LOOKED_BACK = re.compile(
    r"^(?:is|was|when (?:is|will|do|does)|must|did|what|ignore)\b|\blast (?:one|experiment|run) (?:\w+ )?(?:was|looked|failed|is)\b"
    r"|\bfinish the (?:report|sentence|test)|<e\d+> (?:is|are) not enough\b|^let it (?:finish$|finish first|run)"
)
STILL_ASKED = re.compile(
    r"^(?:ask|wait|you (?:never (?!have|need)|did|started|do not ask)|did|are|is)\b|\b(?:is|are) (?:needed|required|necessary)\b|"
    r"\b(?:not|never|nothing|no)\b.*\bauto|\bautopilot off\b|\bback on$|\bnot (?:say|mean)\b|"
    r"\b(?:this time|tonight|today|when|while|until)\b"
)
TOLD_TIME = re.compile(  # what is told of time and money is no grant
    r"^(?:that|it|this|still|you) (?!would|can|may|should|must|has to|have|get)|"
    r"^(?:i|we) (?:will be|was|were|had|lost|wanted|wish)\b|"
    r"\b(?:wasted|took|cost|lost|asked for)\b|<[tekmg]\d+> (?:left|to go|already)\b|\b(?:be back|back in|off for|meeting)\b|"
    r"\bbetween <|\b(?:one|an?) or (?:more )?<|\bnot up to\b"
)
CAPPED = re.compile(r"\b(?:stop|finish|end|wrap)\b|<[tekmg]\d+> (?:at most|max(?:imum)?|tops)\b")
NOT_LAUNCHES = re.compile(
    r", not (?:the )?(?:launches|trainings?|starts?)\b|\bnot (?:about|for|before|at) (?:the )?(?:launch|train|start)"
)
TAKEN_IN = re.compile(r"^(?:also )?(?:use|include|take|add|read|train on|learn from|bring|allow)\b")
COMPLAINT = re.compile(
    r"^(?:you (?!can|may|are (?:free|allowed))|(?:i|we) see|ugh|argh|why|how|who|what|was|is|when)\b|"
    r"\b(?:ignor(?:ing|ed)|respect|obey|neither|tighten|lower|raise|good idea|might|tomorrow|stands|strict)\b|\bto <n\d+>$|\btime\b"
)
UNBOUND = re.compile(r"\b(?:is|are) not enough\b|\bexplod\w*|\bdiverg\w*|\bhurts\b")
BACK = re.compile(
    r"^(?:remember|keep|did|have you|who|is|does|you (?:forgot|ignored|seem))\b|"
    r"\b(?:not|never) (?:\w+ )?(?:undo|revoke|take|forget|lift|drop|ignore|withdraw|cancel|scrap|go$|be lifted|lifted|forgotten)\b|"
    r"\b(?:stays?|still|has to stay|does apply)\b|\b(?:all|every\w*)\b.* (?:but|except)\b"
)
WHEN = re.compile(
    r"\b(?:when|once|as soon as|after|until|till|the (?:day|moment|minute)|nobody|no one|refuse|rather than|hate|kidding|joke|"
    r"afraid|resist|could|might|will|would|wants|wanted|wrote|says|said|mention|myself|some ?day|later|tomorrow|"
    r"next (?:week|month)|far be it|permission|mistake|dead body|shame)\b|^(?:why|was i|did)\b"
)
NO_MORE = re.compile(
    r"\b(?:already|spent|used up|less than|too (?:expensive|much|many|long)|overkill|waste)\b|"
    r"\b(?:not|never|no|refuse|nobody|without)\b(?! (?:less|fewer|problem|worr|rush|hurry|objection))(?!.*\b(?:problem|need))"
)
FREED = re.compile(
    r"\b(?:need not|not (?:have|need) to|not (?:really )?mind|afraid|no problem|not (?:limit|cap|restrict)|"
    r"no longer (?:required|needed|necessary))\b"
)
CHANGED = re.compile(
    r"\b(?:chang(?:e|ing)|touch|unlock|alter|modify|tune|vary|not happy|float\w*|freely|free|limits?|ceiling|caps?|bother|"
    r"whatever)\b"
)
HELD = re.compile(
    r"\b(?:not|never|no|nobody|without|hands off|alone|except|but|apart from|stop|avoid|refrain|keep|leave|quit|dare|than|"
    r"instead of|unwise|stay\w*|remain\w*|(?:as|how) it is|same|unchanged|fixed|constant|hold|freeze|lock|pin|sacred|taboo|"
    r"forbid\w*|off)\b"
)
LESS_OF = re.compile(r"\b(?:less|fewer|more|some|little) (?:of|from)\b")
LET_IN = re.compile(r"\b(?:keep|leave \w*(?: \w+)? in|including|more of|as well|too)\b")
OUT = re.compile(r"\b(?:not|never|no|out|away|without|off|none|stop|nothing)\b")
NOT_ONLY = re.compile(r"\b(?:not|never)\b.*\bonly\b|\b(?:add|too|as well|also|in addition)\b")
NOT_WITHOUT = re.compile(
    r"\b(?:not|never|no)\b(?:.*\b(?:but|without|other than|except|besides)\b|(?: \w+){0,2} (?:leave|exclude|drop|skip)\b)"
)


LESS_THAN = re.compile(r"\bless than\b")
NEITHER = re.compile(r"(?!)")
Words = tuple[re.Pattern[str], re.Pattern[str]]  # what speaks against a kind, but beside these


def always(*patterns: re.Pattern[str]) -> tuple[Words, ...]:
    """Words that speak against a kind whatever stands beside them."""
    return tuple((pattern, NEITHER) for pattern in patterns)


AGAINST: dict[str, tuple[Words, ...]] = {
    "approve_none": always(ON, STILL_ASKED),
    "approve_plan": always(UNASKED),
    "approve_launch": always(UNASKED, NOT_LAUNCHES),
    "finish": always(END, LOOKED_BACK),
    "pause": always(END, LATER, HALF_WAY),
    "revoke": always(BACK, COMPLAINT),
    "revoke_newest": always(BACK, COMPLAINT),
    "delete": always(WHEN),
    "publish": always(WHEN),
    "use": always(ASKED, HATED),
    "use_always": always(ASKED, HATED),
    "avoid": always(ASKED, NOT_BAD),
    "keep": (*always(ASKED), (CHANGED, HELD)),
    "at_most": always(ASKED, FREE_DOWN, FREED, NOT_BAD, UNBOUND),
    "at_least": always(ASKED, FREE_UP, FREED, NOT_BAD, UNBOUND),
    "bound_both": always(ASKED, FREE_UP, FREE_DOWN, FREED, NOT_BAD),
    "more": always(ASKED, NO_MORE, TOLD_TIME, CAPPED),
    "less": always(ASKED, LESS_THAN, TOLD_TIME),
    "total": always(ASKED, TOLD_TIME),
    "only": always(ASKED, NOT_ONLY, BLAMED),
    "never": (
        *always(ASKED, LESS_OF, ALL_ELSE, STILL_OUT, NOT_WITHOUT),
        (LET_IN, OUT),
        (LET_BACK, OUT),
        (TAKEN_IN, OUT),
    ),
}


def contrary(kind: str, text: str) -> bool:
    """Whether the clause's words speak against the kind."""
    return any(against.search(text) and not beside.search(text) for against, beside in AGAINST.get(kind, ()))


def let_back(text: str) -> bool:
    """Whether it says that something may be used again."""
    return LET_BACK.search(text) is not None and OUT.search(text) is None
