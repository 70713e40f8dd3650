"""One clause with what it names: parameters, values, numbers, times, amounts and data sources, each a tag in its text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tuneloop.agents.steering.known import Known
from tuneloop.agents.steering.numbers import NUMBER, ONE, TENS, UNITS, joined, number, seconds_in
from tuneloop.agents.steering.spelling import name_near
from tuneloop.core.experiment import Value

MORE = r"(?:more|additional|extra|further|other|fewer|less)"
BUDGET = re.compile(
    r"\b(?:(?P<k>tokens?)|(?P<g>(?:gpu|accelerator)(?:[ -]?(?:hours?|time))?)|(?P<m>money|dollars?|spending|cost|usd)|"
    r"(?P<e>experiments?))[ -](?:limits?|budgets?|caps?|allowance|quota|count|ceiling|maximum)\b|"
    r"\b(?:number|count|limit|cap|maximum|budget) (?:of|for|on) (?:the )?"
    r"(?:(?P<e2>experiments)|(?P<k2>tokens)|(?P<m2>spending|money))\b"
)
DATA = re.compile(
    r"\b(?:through|over|of|see|sees|read|reads|on) (?:\w+ ){0,2}(?:data|data ?set|training set|material|examples?|corpus)\b"
)
OFTEN = {"once": 1.0, "twice": 2.0}
MODULES = re.compile(r"\b\w+_proj\b(?:(?: ?,)?(?: and| plus| &)? ?\b\w+_proj\b)*")
POWER = re.compile(r"(?<![\w.])\d(?:\.\d+)?e-0?[2-7]\b")
MORE_WORDS = ("extra", "additional", "more", "further")
NOUNS = (
    "post",
    "problem",
    "question",
    "answer",
    "example",
    "sample",
    "text",
)  # one of them is no file that is called so
LARGEST = 1e15
ADDED_UP = re.compile(rf"\b(?:{'|'.join(UNITS[1:10])})[ -](?:{'|'.join([*UNITS, *TENS])})\b")
FEWER = ("fewer", "less")
MONEY = re.compile(
    rf"(?:[$€£]\s?(?P<a>{NUMBER})(?:\s(?P<m1>{MORE})\b)?|(?P<b>{NUMBER}|{ONE})\s(?:(?P<m2>{MORE})\s)?"
    r"(?:dollars?|bucks?|usd|eur|euros?|cents?)\b|(?P<c>\d+(?:\.\d+)?)[$€£](?:\s(?P<m3>more)\b)?)"
)
GPU_HOURS = re.compile(
    rf"\b(?P<n>{NUMBER}|{ONE})\s?(?:(?P<more>{MORE})\s)?(?:gpu|device|accelerator)[ -]?(?:hours?|hrs?|h)\b"
)
TOKENS = re.compile(rf"\b(?P<n>{NUMBER})\s?(?:(?P<more>{MORE})\s)?(?:model |chat |prompt )?tokens?\b")
EXPERIMENTS = re.compile(
    rf"(?<!number )(?<!experiment )(?<!no )(?<!no\. )(?<!# )(?<!#)\b(?P<n>{NUMBER}|{ONE})\s(?:(?P<more>{MORE})\s)?"
    rf"(?:training |new )?(?:experiments?|tries|attempts?|rounds?|iterations?|loops?|"
    r"trials?|turns?|runs?)\b"
)
WORD = re.compile(r"[a-z0-9]")


@dataclass
class Clause:
    """`text`: its words, with tags such as `p0` in pointed brackets for what `things` holds; `said`: without tags."""

    said: str
    text: str
    things: dict[str, object] = field(default_factory=dict)

    def all(self, letter: str) -> list[object]:
        """What was named of one kind, in order."""
        return [self.things[tag] for tag in re.findall(rf"<({letter}\d+)>", self.text)]

    def has(self, pattern: str) -> bool:
        """Whether the tagged text holds the pattern."""
        return re.search(pattern, self.text) is not None

    def tag(self, letter: str, thing: object) -> str:
        """A tag for a thing."""
        name = f"{letter}{len(self.things)}"
        self.things[name] = thing
        return f"<{name}>"


def tagged(said: str, known: Known) -> Clause:
    """The clause with its tags: amounts before parameters, parameters before bare numbers."""
    clause = Clause(said, said)
    clause.text = MONEY.sub(_money(clause), clause.text)
    clause.text = GPU_HOURS.sub(_counted(clause, "g"), clause.text)
    clause.text = TOKENS.sub(_counted(clause, "k"), clause.text)
    clause.text = EXPERIMENTS.sub(_counted(clause, "e"), clause.text)
    clause.text = seconds_in(clause.text, lambda seconds: clause.tag("t", seconds))
    clause.text = joined(clause.text, lambda a, b: clause.tag("t", _sum(clause.things[a], clause.things[b])))
    clause.text = BUDGET.sub(lambda match: match[0].replace(" ", "~"), clause.text)  # no parameter
    if target := known.parameters.get("lora target"):
        clause.text = MODULES.sub(_modules(clause, target), clause.text)
    clause.text = _named(clause, known).replace("~", " ")
    clause.text = re.sub(r"\b(?:one|single) (?=<p\d+>)", lambda _: f"{clause.tag('n', 1.0)} ", clause.text)
    clause.text = re.sub(rf"(?<![\w<.])(?:{NUMBER})(?![\w>])", _number(clause), clause.text)
    clause.text = _next(clause, known)
    clause.text = _budget(clause)
    clause.text = _passes(clause, known)
    clause.text = _rate(clause, known)
    if known.parameters.get("max length") in clause.all("p"):
        clause.text = re.sub(r"<(k\d+)>", lambda match: clause.tag("n", clause.things[match[1]]), clause.text)
    clause.text = re.sub(
        r"<(s\d+)>(?= <[tkmge]\d+>)|(?<=> )<(s\d+)>(?=$| )", lambda match: _amount(clause, match), clause.text
    )
    clause.text = re.sub(
        r"<(p\d+)>((?: of| to| =| at| :)? <n\d+>) <(p\d+)>", _unit(clause, known.parameters.get("step")), clause.text
    )
    return clause


def _next(clause: Clause, known: Known) -> str:
    """`in experiment 4`: the one after the open one is the next."""

    def take(match: re.Match[str]) -> str:
        return "next" if clause.things[match[1]] == known.experiment + 1 else match[0]

    return re.sub(
        r"(?<!except )(?<!not )\b(?:in|for|during) (?:experiment|run|number|round|#) ?<(n\d+)>", take, clause.text
    )


def _unit(clause: Clause, steps: str | None) -> Callable[[re.Match[str]], str]:
    """`warmup of 100 steps`: the steps are the unit, no parameter of their own."""

    def take(match: re.Match[str]) -> str:
        owner, unit = str(clause.things[match[1]]), str(clause.things[match[3]])
        return f"<{match[1]}>{match[2]}" if unit == steps and owner.endswith("_steps") else match[0]

    return take


def _amount(clause: Clause, match: re.Match[str]) -> str:
    """`two hours extra` names no data set that is called so."""
    before = clause.text[: match.start()].rstrip()
    names = clause.things[match[1] or match[2]]
    beside = match[1] or re.search(r"<[tkmge]\d+>$", before)
    return "more" if beside and any(name in MORE_WORDS for name in names) else match[0]  # type: ignore[attr-defined]


def _budget(clause: Clause) -> str:
    """`raise the token limit to 150,000`: a number for what limits the run; of two the last, which is the new one."""
    named = BUDGET.search(clause.text)
    numbers = re.findall(r"<(n\d+)>", clause.text)
    if named is None or not numbers or clause.has(r"<[pvstkmge]\d+>"):
        return clause.text
    letter = next(letter[0] for letter, said in named.groupdict().items() if said)
    rest = re.sub(rf"\bfrom <{numbers[0]}>", "", clause.text) if len(numbers) == 2 else clause.text
    return rest.replace(f"<{numbers[-1]}>", clause.tag(letter, clause.things[numbers[-1]]))


def _passes(clause: Clause, known: Known) -> str:
    """`go three times over the data`: epochs."""
    name = known.parameters.get("epoch")
    if name is None or clause.has(r"<[pvtkmge]\d+>") or not DATA.search(clause.text):
        return clause.text
    text = re.sub(r"\b(once|twice)\b", lambda match: f"{clause.tag('n', OFTEN[match[1]])} times", clause.text)
    return re.sub(r"(<n\d+>) times?\b", lambda match: f"{match[1]} {clause.tag('p', name)}", text)


def _rate(clause: Clause, known: Known) -> str:
    """A power of ten that belongs to no parameter is a learning rate: `go with 1e-4`."""
    name = known.parameters.get("learning rate")
    if name is None or clause.has(r"<[pvs]\d+>") or len(clause.all("n")) != 1 or not POWER.search(clause.said):
        return clause.text
    return re.sub(r"<n\d+>", lambda match: f"{clause.tag('p', name)} {match[0]}", clause.text)


def _sum(one: object, other: object) -> float:
    return float(str(one)) + float(str(other))


def _money(clause: Clause) -> Callable[[re.Match[str]], str]:
    def take(match: re.Match[str]) -> str:
        amount = number(match["a"] or match["b"] or match["c"])
        cents = "cent" in match[0] and "$" not in match[0]
        tag = clause.tag("m", amount / 100 if cents else amount)
        more = match["m1"] or match["m2"] or match["m3"] or ""
        return f"{'more' if more and more not in FEWER else more} {tag}".strip()

    return take


def _counted(clause: Clause, letter: str) -> Callable[[re.Match[str]], str]:
    def take(match: re.Match[str]) -> str:
        if letter == "e" and not match[0].endswith("s") and number(match["n"]) != 1:
            return match[0]  # `why did 2 run out of memory`
        tag = clause.tag(letter, number(match["n"]))
        more = match["more"] or ("more" if match["n"].startswith("another") else "")
        return f"{'more' if more and more not in FEWER else more} {tag}".strip()

    return take


def _modules(clause: Clause, target: str) -> Callable[[re.Match[str]], str]:
    """`q_proj and v_proj`: where adapters go."""

    def take(match: re.Match[str]) -> str:
        return clause.tag("v", ((target, ",".join(re.findall(r"\w+_proj", match[0]))),))

    return take


def _number(clause: Clause) -> Callable[[re.Match[str]], str]:
    def take(match: re.Match[str]) -> str:
        value = number(match[0])
        if ADDED_UP.search(match[0]):
            return match[0]  # `one twenty eight`
        return clause.tag("n", value) if match[0] != "one" and abs(value) < LARGEST else match[0]

    return take


def _named(clause: Clause, known: Known) -> str:
    """The longest phrases that are sources, values or parameters."""
    words, found = clause.text.split(), list[str]()
    at = 0
    while at < len(words):
        length, tag = _longest(clause, words[at : at + 6], known)
        found.append(tag or words[at])
        at += max(1, length)
    return " ".join(found)


def _longest(clause: Clause, words: list[str], known: Known) -> tuple[int, str]:
    for length in range(len(words), 0, -1):
        phrase = normal(words[:length])
        if not phrase or not all(WORD.match(word) for word in words[:length]):
            continue
        if phrase in known.parameters:
            return length, clause.tag("p", known.parameters[phrase])
        if phrase in known.values:
            return length, clause.tag("v", tuple(known.values[phrase]))
        singular_noun = length == 1 and phrase in NOUNS and words[0].strip(".,:'") == phrase
        if not singular_noun and (sources := known.sources_called(phrase)):
            return length, clause.tag("s", sources)
        if re.fullmatch(r"[a-z ]+", phrase) and (name := name_near(phrase, known.parameters)):
            return length, clause.tag("p", known.parameters[name])
    return 0, ""


def normal(words: Iterable[str]) -> str:
    """Words as vocabularies spell them: no hyphens, no underscores, no plural."""
    apart = " ".join(words).replace("-", " ").replace("_", " ").replace("'s", "").split()
    return " ".join(singular(word.strip(".,:'")) for word in apart)


def singular(word: str) -> str:
    """Without a plural's s."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def numbers_of(clause: Clause) -> list[float]:
    """Its bare numbers."""
    return [thing for thing in clause.all("n") if isinstance(thing, float)]


def as_value(amount: float) -> Value:
    """Whole numbers as such."""
    return int(amount) if amount == int(amount) and abs(amount) < 1e15 else amount
