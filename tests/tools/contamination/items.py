"""Made-up benchmark items in several languages: word problems, formulas, choices, patents, tables, code; nothing of the guard's."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace


def words(text: str) -> list[str]:
    """As they stand, with blanks between."""
    return text.split()


STORIES = {
    "en": [
        "{n} has {a} {t}. {n} buys {b} more {t} at the market and then gives {c} {t} to {m}. How many {t} does {n} have now?",
        "A train with {a} passengers stops in {p}. {b} people get off and {c} get on. How many passengers are on the train?",
        "{n} reads {a} pages on Monday and {b} pages on Tuesday. If the book has {c} pages, how many are left for {n}?",
        "The shop of {n} sold {a} {t} in May, {b} in June and {c} in July. How many {t} were sold in the whole summer?",
    ],
    "de": [
        "{n} hat {a} {t}. Auf dem Markt kauft {n} noch {b} {t} und schenkt {m} davon {c}. Wie viele {t} hat {n} jetzt?",
        "In {p} wohnen {a} Familien, {b} ziehen weg und {c} kommen neu dazu. Wie viele Familien wohnen nun dort?",
    ],
    "fr": [
        "{n} possède {a} {t}. Au marché, {n} achète encore {b} {t}, puis en offre {c} à {m}. Combien de {t} lui reste-t-il ?",
        "Un bus quitte {p} avec {a} voyageurs ; {b} descendent, {c} montent. Combien de voyageurs y a-t-il à présent ?",
    ],
    "es": [
        "{n} tiene {a} {t}. En el mercado compra {b} {t} más y regala {c} a {m}. ¿Cuántos {t} tiene {n} ahora?",
        "Una biblioteca de {p} tiene {a} libros, presta {b} y recibe {c} nuevos. ¿Cuántos libros hay al final?",
    ],
    "ru": [
        "У {n} было {a} {t}. На рынке были куплены ещё {b} {t}, а потом {c} подарены другу по имени {m}. Сколько {t} осталось?",
        "В городе {p} стоит {a} домов, построили {b} и снесли {c}. Сколько домов теперь в этом городе?",
    ],
    "zh": [
        "{n}有{a}个{t}，在市场上又买了{b}个{t}，然后送给{m}{c}个。请问{n}现在还有多少个{t}？",
        "一列火车从{p}出发时有{a}名乘客，中途下车{b}人，上车{c}人。问火车上现在一共有多少名乘客？",
    ],
    "ar": ["لدى {n} عدد {a} من {t} واشترى من السوق {b} أخرى ثم أعطى صديقه {m} منها {c} فكم بقي لديه الآن؟"],
    "hi": ["{n} के पास {a} {t} हैं। वह बाज़ार से {b} और {t} खरीदता है और {m} को {c} दे देता है। अब उसके पास कितने {t} हैं?"],
}
NAMES = {
    "en": ["Tom", "Anna", "Priya", "Omar", "Grace", "Wei", "Lucas", "Ingrid"],
    "de": ["Jonas", "Lena", "Mehmet", "Greta", "Uwe", "Heike"],
    "fr": ["Camille", "Luc", "Amélie", "Bastien", "Chloé", "Hugo"],
    "es": ["Lucía", "Mateo", "Ximena", "Pablo", "Inés", "Raúl"],
    "ru": ["Маша", "Иван", "Олег", "Света", "Дима", "Нина"],
    "zh": ["小明", "小红", "李华", "王芳", "张伟", "陈静"],
    "ar": ["أحمد", "سعيد", "خالد", "يوسف", "عمر", "حسن"],
    "hi": ["राम", "मोहन", "सीता", "गीता", "रवि", "नेहा"],
}
THINGS = {
    "en": ["apples", "marbles", "stamps", "pencils", "shells"],
    "de": ["Äpfel", "Murmeln", "Briefmarken", "Bücher"],
    "fr": ["pommes", "billes", "timbres", "crayons"],
    "es": ["manzanas", "canicas", "sellos", "lápices"],
    "ru": ["яблок", "марок", "книг", "монет"],
    "zh": ["苹果", "邮票", "铅笔", "贝壳"],
    "ar": ["التفاح", "الكتب", "الأقلام", "الطوابع"],
    "hi": ["सेब", "किताबें", "सिक्के", "पेंसिल"],
}
PLACES = {
    "en": ["Leeds", "Denver", "Perth"],
    "de": ["Ulm", "Kassel", "Jena"],
    "fr": ["Nantes", "Lyon", "Dijon"],
    "es": ["Vigo", "Cali", "Cuzco"],
    "ru": ["Омск", "Тула", "Пермь"],
    "zh": ["上海", "成都", "武汉"],
    "ar": ["القاهرة"],
    "hi": ["पुणे"],
}
FORMULAS = [
    r"Find the value of $\frac{{{a}}}{{{b}}} + \sqrt{{{c}}}$ as a decimal rounded to {d} places.",
    r"Let $f(x) = {a}x^{{2}} - {b}x + {c}$. Compute $f({d})$.",
    r"How many positive integers $n \leq {a}{b}{c}$ are divisible by ${d}$ but not by ${b}$?",
    r"A circle of radius ${a}$ is tangent to the line $y = {b}x + {c}$ where $x = {d}$. Find the ordinates of its center.",
    r"Evaluate $\int_{{{a}}}^{{{b}}} \left( {c}x + {d} \right) \, dx$.",
    r"If $x + y = {a}$ and $x \cdot y = {b}$, what is $x^{{2}} + y^{{2}} - {c} + \dfrac{{{d}}}{{2}}$?",
    r"Solve $\log_{{{a}}}(x - {b}) = {c}$ for $x$ and give $x \bmod {d}$.",
    r"The triangle has sides $\text{{{a} cm}}$, $\text{{{b} cm}}$ and an angle of ${c}^\circ$; find ${d}$ times its area.",
]
SUBJECTS = {
    "en": [
        ("Which of the following best describes the role of {x} in {y}?", "It {v} the {o} of the {s}."),
        ("A patient with {x} is treated with {y}. Which side effect is most likely to come first?", "{v} of the {o} and {s}"),
        ("According to the theory of {x}, why do {y} tend to fail in practice?", "Because {s} {v} the {o}"),
        ("In which year did the parliament of {x} ratify the treaty of {y}?", "in the year of the {s} {o}"),
    ],
    "zh": [
        ("下列关于{x}与{y}之间关系的说法中，正确的是哪一项？", "{s}可以{v}{o}"),
        ("某投资者同时持有{x}和{y}，根据监管规定，其应当首先采取的措施是什么？", "{v}{s}的{o}"),
    ],
    "de": [("Welche Aussage über {x} und {y} trifft nach geltendem Recht am ehesten zu?", "{s} {v} den {o}")],
}  # fmt: skip
VERBS = {
    "en": ["regulates", "inhibits", "doubles", "replaces", "stabilises", "dissolves", "weakens", "signals"],
    "zh": ["降低", "提高", "转移", "替代", "披露", "锁定", "分散", "冻结"],
    "de": ["verpflichtet", "ersetzt", "begrenzt", "hemmt", "schützt", "beendet"],
}
HAN = "安本博昌朝诚川丹德鼎东恩飞丰福高光广海浩恒宏华辉嘉江金景凯科兰联龙隆明宁鹏平普清瑞润山盛泰通万伟新信兴旭亚阳永宇远云泽正中洲"
SYLLABLES = words("ba cor den fil gra hos il jun kel lor mar nim ola pra quo ris sten tul ur ver wol xan yst zor")
PATENT = words(
    "apparatus for method of comprising configured to wherein coupled said first second housing sensor "
    "valve member substrate layer signal processor battery antenna rotor shaft seal polymer coating "
    "catalyst filter membrane lens beam laser controller memory channel fluid pump heat exchanger conduit "
    "flange bracket spring lever clutch gear hub spindle electrode anode cathode electrolyte wafer resist "
    "mask etching deposition anneal diode gate bias oscillator mixer amplifier decoder packet header "
    "buffer queue scheduler node cluster router key cipher token ledger image frame pixel"
)
ROWS = ["North", "South", "East", "West", "Central", "Coast", "Hills", "Valley"]
COLUMNS = ["revenue", "visitors", "output", "members", "rainfall", "goals", "exports", "patents"]
TASKS = [
    "Write a function to {v} every {x} of a list whose index is divisible by {a} and larger than {b}.",
    "Write a python function that takes a string of {x} and returns the {y} repeated {a} times, cut to {b} characters.",
]


@dataclass(frozen=True)
class Made:
    """An item: fields by name, the gold answer; `facts`: what another item of its template would have otherwise."""

    kind: str
    language: str
    fields: dict[str, str]
    answer: str
    facts: tuple[str, ...]
    names: tuple[str, ...] = ()
    options: tuple[str, ...] = field(default=())


def word(rng: random.Random, language: str = "en") -> str:
    """A word that nobody knows."""
    if language == "zh":
        return "".join(rng.choices(HAN, k=rng.randint(2, 3)))
    return "".join(rng.choices(SYLLABLES, k=rng.randint(2, 3)))


def story(rng: random.Random) -> Made:
    language = rng.choice([*STORIES, "en", "en", "zh"])
    template = rng.choice(STORIES[language])
    n, m = rng.sample(NAMES[language], 2)
    numbers = [rng.choice((rng.randint(11, 99), rng.randint(100, 999), 100 * rng.randint(11, 90))) for _ in range(3)]
    values = {"n": n, "m": m, "t": rng.choice(THINGS[language]), "p": rng.choice(PLACES[language])}
    text = template.format(**values, **dict(zip("abc", numbers, strict=True)))
    names = tuple(name for name in (n, m) if name in text)
    return Made("story", language, {"question": text}, str(sum(numbers)), tuple(map(str, numbers)), names)


def formula(rng: random.Random) -> Made:
    template = rng.choice(FORMULAS)
    a, b, c, d = (rng.randint(2, 60) for _ in range(4))
    text = template.format(a=a, b=b, c=c, d=d)
    return Made(
        "formula", "en", {"problem": text}, str(rng.randint(0, 999)), (template, str(a), str(b), str(c), str(d))
    )


def choice(rng: random.Random) -> Made:
    language = rng.choice(("en", "en", "zh", "zh", "de"))
    stem, option = rng.choice(SUBJECTS[language])
    x, y = (
        f"{word(rng, language)}",
        f"{word(rng, language)} {word(rng, language)}".replace(" ", "" if language == "zh" else " "),
    )
    made = tuple(
        option.format(v=rng.choice(VERBS[language]), o=word(rng, language), s=word(rng, language)) for _ in range(4)
    )
    right = rng.randrange(4)
    question = stem.format(x=x, y=y)
    if rng.random() < 0.5:
        fields = {"question": question, **dict(zip("ABCD", made, strict=True))}
    else:
        fields = {"question": question, "choices": "\n".join(f"{c}. {o}" for c, o in zip("ABCD", made, strict=True))}
    return Made("choice", language, fields, "ABCD"[right], (x, y, *made), (), made)


def patent(rng: random.Random) -> Made:
    def sentence(n: int) -> str:
        return " ".join(rng.choices(PATENT, k=n)).capitalize() + "."

    made = tuple(" ".join(sentence(rng.randint(12, 25)) for _ in range(3)) for _ in range(5))
    fields = {
        "title": sentence(7),
        "abstract": " ".join(sentence(rng.randint(15, 25)) for _ in range(4)),
        "claim": f"{rng.randint(1, 20)}. " + sentence(40),
        "options": "\n".join(f"({c}) {o}" for c, o in zip("ABCDE", made, strict=True)),
    }
    return Made("patent", "en", fields, rng.choice("ABCDE"), (fields["claim"],), (), made)


def table(rng: random.Random) -> Made:
    rows, columns = rng.sample(ROWS, 5), rng.sample(COLUMNS, 3)
    cells = [[str(rng.randint(10, 9999)) for _ in columns] for _ in rows]
    text = "\n".join(
        [
            "| region | " + " | ".join(columns) + " |",
            *(f"| {r} | " + " | ".join(c) + " |" for r, c in zip(rows, cells, strict=True)),
        ]
    )
    question = (
        f"By how much does the {columns[0]} of {rows[0]} exceed the mean {columns[1]} of {rows[1]} and {rows[2]}?"
    )
    return Made("table", "en", {"table": text, "question": question}, str(rng.randint(1, 999)), tuple(map(str, cells)))


def code(rng: random.Random) -> Made:
    a, b, x, y = rng.randint(2, 400), rng.randint(401, 9999), word(rng), word(rng)
    template = rng.choice(TASKS)
    text = template.format(v=rng.choice(("drop", "double", "swap", "rename")), x=x, y=y, a=a, b=b)
    test = f"i % {a} == 0 and v > {b}"
    answer = (
        f"def solve(values):\n    {x} = [v for i, v in enumerate(values) if {test}]\n    return {x}[::-1] + [{a}, {b}]"
    )
    return Made("code", "en", {"prompt": text}, answer, ("code", str(a), str(b)))


def short(rng: random.Random) -> Made:
    a, b, sign = rng.randint(2, 999), rng.randint(2, 999), rng.choice("+-")
    text = rng.choice(("What is {} {} {}?", "Compute: {}{}{}", "{} {} {} = ?")).format(a, sign, b)
    return Made("short", "en", {"question": text}, str(a + b), (sign, str(a), str(b)))


MAKERS: tuple[Callable[[random.Random], Made], ...] = (
    story,
    story,
    formula,
    choice,
    choice,
    patent,
    table,
    code,
    short,
)


def make(seed: int, count: int, without: frozenset[tuple[str, ...]] = frozenset()) -> list[Made]:
    """`count` items whose facts differ from each other and from `without`."""
    rng, seen = random.Random(seed), set(without)
    found: list[Made] = []
    while len(found) < count:
        made = rng.choice(MAKERS)(rng)
        if made.facts not in seen:
            seen.add(made.facts)
            found.append(made)
    return found


def twin(made: Made, rng: random.Random) -> Made:
    """Another item of the same template: one number changed, or the options, or the claim."""
    if made.kind == "choice":
        other = next(m for m in iter(lambda: choice(rng), None) if m.language == made.language and len(m.fields) == 5)
        question = made.fields["question"].replace(made.facts[0], word(rng, made.language))
        return replace(made, fields={**other.fields, "question": question}, options=other.options)
    if made.kind == "patent":
        return patent(rng)
    name, text = max(made.fields.items(), key=lambda pair: sum(map(str.isdigit, pair[1])))
    number = rng.choice(re.findall(r"\d+", text))
    changed = str(int(number) + rng.randint(1, 9))
    text = re.sub(rf"(?<!\d){number}(?!\d)", changed, text)
    return replace(made, fields={**made.fields, name: text}, answer=made.answer.replace(number, changed))


def renamed(made: Made, rng: random.Random) -> Made:
    """With other names."""
    fields = dict(made.fields)
    for name in made.names:
        other = rng.choice([n for n in NAMES[made.language] if n not in made.names])
        fields = {key: text.replace(name, other) for key, text in fields.items()}
    return replace(made, fields=fields)
