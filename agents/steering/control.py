"""Clauses about the run itself: finish, pause, go on, approvals; deleting and publishing only in clear words."""

from __future__ import annotations

import re

from tuneloop.agents.steering.clause import Clause
from tuneloop.agents.steering.known import Known
from tuneloop.core.directive import Approve, Delete, Finish, Meaning, Pause, Publish, Question, Revoke, Unclear

THIS = (
    r"(?:this|that|the|it|(?:this|that|the) ?(?:one|experiment|training|round|run|iteration|attempt|turn|job|<e\d+>)|"
    r"(?:the )?(?:current|open|running|ongoing|present) ?(?:one|experiment|training|round|run|iteration|job)?)"
)
OVER = (
    r"(?:is |has )?(?:been )?(?:done|over|finished|finishes|complete[sd]?|completed|ends|ended|through|"
    r"trained|scored|evaluated)"
)
STOP = (
    r"(?:stop|finish|end|quit|halt|wrap (?:it |things |this |everything )?up|conclude|call it (?:a day|"
    r"quits)|be done|we are done|you are done|terminate|close)"
)
NOW = (
    r"(?:this|the (?:current|present|ongoing|running|open)|your (?:current|present)|"
    r"what you are (?:doing|at|on|running)|"
    r"whatever (?:is|you are) (?:running|doing))"
)
FINISH = (
    rf"^(?:once|after|when|as soon as|upon)\b.*{NOW}\b.*?\b(?:{STOP}|that is it|that is all|"
    rf"we are through|no more|over and out)\b",
    rf"^(?:complete|finish|end|conclude|let|wait for|see)\b.*{NOW}\b.*\b(?:and|then|,) .*?\b(?:{STOP}|"
    rf"that is it|that is all)\b",
    rf"^(?:complete|finish|end)\b.*{NOW}\b.*\bdo not (?:start|begin|open|launch)\b",
    rf"\b{STOP}\b.*\b(?:after|once|when|as soon as|following)\b {THIS}(?: {OVER})?(?: right)?$",
    rf"\b(?:after|once|when|as soon as) {THIS}(?: {OVER})?\b.*?\b{STOP}\b",
    rf"\blet {THIS} (?:finish|end|complete|run)(?: through)? .*\b{STOP}\b",
    rf"\bfinish {THIS} (?:and|,|then)+ .*\b{STOP}\b",
    r"^(?:wrap (?:it |things |this |everything )?up|finish up|finish (?:now|soon)|come to an end|conclude|"
    r"call it a day|finish the (?:run|search))(?: now)?$",
    r"\b(?:no|not|without|never)\b.*\b(?:more|further|new|another|other|additional)\b.*(?:experiments?|"
    r"rounds?|tries|attempts|<e\d+>)(?: after this(?: one)?| please)?$",
    r"\bthis (?:should|shall|will|must|can|is|has to)?(?: be| is)? ?(?:the|your|our)? ?(?:last|"
    r"final) (?:one|experiment|round|run|attempt|try|<e\d+>)",
    rf"^(?:the one|{NOW}).*\b(?:should|shall|will|must|is) (?:be )?(?:the |your |our )?(?:very )?(?:last|final)(?: one)?$",
    r"\bmake (?:this|it|that) (?:the|your) (?:last|final)(?: (?:one|experiment|round|run|attempt))?$",
    r"\b(?:that is|this is|it is) (?:enough|sufficient|good enough)\b(?!.*\?)",
    rf"\b(?:last|final) (?:one|experiment|round)\b.*\b{STOP}\b",
    r"\bdo not (?:start|begin|run|do|open|launch|try) (?:any(?:thing)?|another|a new|a further|more|"
    r"the next)(?: (?:more|other|new|further|one|experiments?|rounds?|else|<e\d+>))*(?: after (?:this|"
    r"that)(?: one)?)?$",
    r"\bdo not (?:start|begin|run|do|open|launch|try)\b.*(?:more )?<e\d+>(?: after (?:this|that)(?: one)?)?$",
)
NO_MORE = re.compile(r"\b(?:no|not|without|never)\b")
# `… and then stop`: what is before it comes first, and the stop is not for now.
AT_LAST = re.compile(rf"\b(?:then|after that|afterwards) (?:please )?{STOP}(?: it| everything)?$")
PAUSE = (
    r"^(?:stop|pause|halt|hang on|hold|hold on|hold it|wait|suspend|freeze|interrupt|abort|cancel|take a break|"
    r"stop working|stop everything|kill)"
    r"(?: (?:it|now|here|there|immediately|at once|right now|right away|everything|all|a (?:moment|minute|"
    r"second|bit)|for (?:now|a (?:moment|while|bit))|"
    r"for <t\d+>|<t\d+>|the (?:run|training|job|current job|current training|experiment)|this (?:run|"
    r"training|job|experiment)|running|training|until i am back|till i am back))*$",
    r"^(?:put (?:it|this|the run) on hold|stop what you are doing|i need the (?:machine|gpu|computer|"
    r"cpu)(?: back)?(?: now)?)$",
)
GO_ON = (
    r"^(?:resume|continue|carry on|go on|keep going|keep on|proceed|unpause|do not stop(?: after (?:this|"
    r"that)(?: one)?)?|keep (?:searching|trying|working|experimenting)|go on (?:searching|trying)|"
    r"do not finish(?: yet)?)(?: (?:the run|it|now|with (?:the|this) run|working|searching|then|anyway))*$"
)
ASK = re.compile(
    r"\b(?:ask|asked|asking|check with|consult(?:ed)?|wait for|show|run (?:it|that|this|them|"
    r"the plan) (?:by|past)|confirm with|"
    r"let me|get my|need my|want my|(?:approval|permission|consent|confirmation|sign[- ]off)|my (?:ok|"
    r"okay|consent|go|blessing|word)|"
    r"i (?:want|would like|need|have) to (?:be asked|approve|look at|have a look at|inspect|read|see|"
    r"review|check|confirm|agree|decide|sign)|i (?:must|"
    r"will|shall) "
    r"(?:approve|agree|see|review|check|confirm|decide|sign))\b"
)
BEFORE = re.compile(
    r"\b(?:before|first|beforehand|each|every|any|prior to|until|unless|in advance|required|needed|always|without)\b|"
    r"\b(?:approve|review|see|check) (?:the|your|all) (?:\w+ )?(?:plans?|ideas?|recipes?|experiments?|hypothes[ie]s)\b"
)
DENIED = re.compile(r"\b(?:never|nothing|do not|not|no)\b.*\b(?:without|until|unless|before)\b.*\b(?:ask\w*|my|i|me)\b")
STOP_ASK = re.compile(
    r"\b(?:do not|stop|no need to|never|without|you need not|no longer|quit) (?:need to |"
    r"have to )?(?:be )?(?:ask|asking|check|"
    r"checking|wait|waiting|bother\w*|confirm)\b|\b(?:do not|no longer) (?:need|require|"
    r"want)\b.*\b(?:approval|permission|ok|okay|"
    r"consent|confirmation|asked|sign[- ]off)\b|\bno (?:more )?(?:approvals?|questions?|confirmations?)\b(?! from)|"
    r"\b(?:decide|go ahead|do it|run|go|work|act) (?:on your own|by yourself|alone|autonomously|"
    r"without (?:asking|me|approval))\b|"
    r"\b(?:turn )?approvals? off\b|\bno (?:approval|permission|confirmation) (?:is )?(?:needed|necessary|required)\b"
)
LAUNCH = re.compile(
    r"\b(?:train|trains|training|trainings|launch|launching|start|starting|run|runs|running|job|jobs|gpu|fit)\b"
)
PLAN = re.compile(
    r"\b(?:plan|plans|idea|ideas|hypothesis|hypotheses|propose|proposal|recipe|experiment|experiments|"
    r"anything|next|try|trying|decide|step|<e\d+>)\b|<e\d+>"
)
DANGER = re.compile(
    r"\b(?:delet\w*|eras\w*|wip(?:e|es|ed|ing)\b|purg\w*|destroy\w*|rm\b|unlink\w*|trash\w*|nuke\w*|"
    r"shred\w*|publish\w*|upload\w*|push (?:it|this|that|the|to|everything|all|model|my|our)|push.to.hub|"
    r"hugging ?face|"
    r"spend\w*|buy\w*|pay\b|paid\b|purchase\w*|release (?:it|the model|the weights)|make (?:it|"
    r"the model) public|clean (?:up|out)|free (?:up )?(?:some )?(?:disk|space))"
)
BARE_DELETE = re.compile(
    r"^(?:delete|erase|wipe|purge|remove|throw away|get rid of|destroy) (?P<what>(?:all |all of |the |"
    r"this |that |these |every |my |old |whole |entire )*"
    r"(?:experiments? (?:<n\d+>|\d+)|<e\d+>|experiments?|run|runs|checkpoints?|weights|models?|adapters?|"
    r"logs?|cache|caches|artifacts?|folders?|jobs?|results?|reports?|everything|outputs?|files?)"
    r"(?: (?:of|from) (?:the |this |that |all )?(?:experiments? ?(?:<n\d+>|\d+)?|run|baseline|old ones?|"
    r"failed ones?|failed experiments?|last (?:one|experiment)))?(?:'s)?(?: (?:weights|folder|checkpoints?|"
    r"model))?)(?: now| from disk)?$"
)
BARE_PUBLISH = re.compile(
    r"^(?:publish|push|upload|release|share|send) (?:it|this|(?:the |this |our |my )?(?:best |final |"
    r"trained |current |tuned |winning |new |finished |fine-?tuned )*(?:model|adapter|weights|result|checkpoint))"
    r"(?: (?:to|on|at|onto) (?:the |my |our )?(?P<to>[\w./ -]+?))(?: (?:as|under|named|called) (?P<name>[\w./-]+))?$"
)


def control(clause: Clause, known: Known) -> tuple[Meaning, ...]:
    """What the clause wants of the run; () when it is about something else."""
    if danger := dangerous_words(clause):
        return danger
    text = clause.text
    if ends(text):
        return (Finish(),)
    if any(re.search(pattern, text) for pattern in PAUSE):
        return (Pause(),)
    if re.search(GO_ON, text):
        return (gone_on(known),)
    return ()


def ends(text: str) -> bool:
    """Whether the search shall end after the open experiment."""
    if re.search(r"<[psnvtkm]\d+>", text) or (re.search(r"\bmore <e\d+>", text) and not NO_MORE.search(text)):
        return False
    return any(re.search(pattern, text) for pattern in FINISH)


def gone_on(known: Known) -> Meaning:
    """Going on takes back an end that was asked for; else it is what the run does anyway."""
    ends = tuple(d.id for d in known.directives if d.state == "open" and isinstance(d.wish, Finish))
    return Revoke(ids=ends) if ends else Question(about="status")


def approval(text: str) -> tuple[Meaning, ...]:
    """Whether the run shall ask before it goes on."""
    if not DENIED.search(text) and STOP_ASK.search(text):
        return (Approve(at="none"),)
    if not (DENIED.search(text) or (ASK.search(text) and BEFORE.search(text))) or re.search(r"<[tkm]\d+>", text):
        return ()
    if re.search(r"\b(?:plans?|ideas?|hypothes[ie]s|proposals?)\b", re.split(r"\bbefore\b", text, maxsplit=1)[0]):
        return (Approve(at="plan"),)
    behind = re.split(r"\b(?:before|until|without|unless|prior to)\b", text, maxsplit=1)
    parts = (behind[0], text) if DENIED.search(text) else (behind[-1], text)
    where = next(part for part in parts if part is text or LAUNCH.search(part) or PLAN.search(part))
    plan = re.search(r"\b(?:plans?|ideas?|hypothes[ie]s|proposals?|recipes?|next)\b|<e\d+>|experiment", where)
    return (Approve(at="plan" if plan or not LAUNCH.search(where) else "launch"),)


def dangerous_words(clause: Clause) -> tuple[Meaning, ...]:
    """Deleting and publishing where nothing else can be meant; unclear where the words only come near."""
    text = clause.text
    if match := BARE_DELETE.match(text):
        return (Delete(what=spelled(clause, match["what"])),)
    if match := BARE_PUBLISH.match(text):
        return (Publish(to=spelled(clause, match["name"] or match["to"]).strip()),)
    near = DANGER.search(text)
    if near is None or re.search(r"^more <[mk]\d+>$", text):
        return ()
    if re.match(r"spend", near[0]) and re.search(r"<[mkte]\d+>", text):
        return ()  # amounts decide what is meant
    return (Unclear(text=clause.said),)


def spelled(clause: Clause, text: str) -> str:
    """A part of the tagged text in words again: what numbers and counts it names."""
    return re.sub(r"<(\w\d+)>", lambda match: _word(clause, match[1]), text)


def _word(clause: Clause, tag: str) -> str:
    thing = clause.things[tag]
    if tag[0] == "e":
        return f"{thing:g} experiments"
    return f"{thing:g}" if isinstance(thing, float) else str(thing)
