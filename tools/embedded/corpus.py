"""What the tiny base model reads before any fine-tuning: little stories and what comes out, equations, small talk.

It holds every skill and every word the benchmark needs, and never the form: no story in a chat turn, no story with a box,
no story of the benchmark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tuneloop.tools.embedded.problems import SUFFIX, Problem, chain, shopping, stories, together
from tuneloop.tools.embedded.words import LIMIT, equation_solution, people, prose_solution, random_change

DOCUMENTS = 42_000
TOKENIZER_DOCUMENTS = 3_000
CHAT_FRAME = "<|im_start|>user\n{asked}<|im_end|>\n<|im_start|>assistant\n{said}<|im_end|>\n"
SMALL_TALK = (
    "{name} likes {things} very much.",
    "{name} and {other} are good friends.",
    "First read the question, then solve it step by step.",
    "So the answer is clear.",
    "{other} asks how many {things} there are.",
)

Document = dict[str, str]


def equations(rng: Random) -> Document:
    """A page of sums."""
    steps = [random_change(rng, rng.randint(1, LIMIT)) for _ in range(rng.randint(4, 8))]
    return {"told": "", "text": "\n".join(map(str, steps)) + "\n"}


def interleaved(p: Problem) -> Document:
    """A story with each equation right behind the sentence it belongs to."""
    first, rest = p.story[: len(p.story) - len(p.steps)], p.story[len(p.story) - len(p.steps) :]
    said = [f"{sentence} {step}." for sentence, step in zip(rest, p.steps, strict=True)]
    return {"told": " ".join(first), "text": (" " if first else "") + " ".join(said) + "\n"}


def story(rng: Random, p: Problem) -> Document:
    """A story, most often with its question, sometimes with other words, then the solution."""
    told = [*p.story]
    if rng.random() < 0.15:
        told.append(small_talk(rng))
    if rng.random() < 0.8:
        told.append(p.asked)
    write = rng.choice((prose_solution, equation_solution))
    return {"told": " ".join(told), "text": "\n" + write(p.steps) + "\n"}


def small_talk(rng: Random) -> str:
    """A sentence without a problem in it."""
    return rng.choice(SMALL_TALK).format(**people(rng))


def chat(rng: Random) -> Document:
    """Small talk and boxes around numbers: every token of the benchmark's form is seen, none of its problems."""
    number = rng.randint(1, LIMIT)
    asked, said = rng.choice(
        (
            (small_talk(rng), small_talk(rng)),
            (f"Write {number} in a box.", f"\\boxed{{{number}}}"),
            (small_talk(rng) + SUFFIX, f"So the answer is {number}.\n\\boxed{{{number}}}"),
            (small_talk(rng) + SUFFIX, f"Answer: {number}\n\\boxed{{{number}}}"),
        )
    )
    return {"told": "", "text": CHAT_FRAME.format(asked=asked, said=said)}


def problem(rng: Random, progress: float) -> Problem:
    """A problem of one to three steps; longer ones become frequent as reading goes on."""
    kind = rng.random()
    if kind < 0.15:
        return together(rng)
    if kind < 0.3:
        return shopping(rng)
    return chain(rng, rng.choices((1, 2, 3), (1 - 0.8 * progress, 1, 1.5 * progress))[0])


def document(rng: Random, progress: float) -> Document:
    """One page; `progress` runs from 0 to 1 through the corpus."""
    kind = rng.random()
    if kind < 0.05:
        return chat(rng)
    if kind < 0.4 - 0.25 * progress:
        return equations(rng)
    known = stories()
    while (p := problem(rng, progress)).story in known:
        pass
    return interleaved(p) if rng.random() < 0.5 - 0.45 * progress else story(rng, p)


def documents(seed: int, count: int) -> Iterator[Document]:
    """`count` pages, easy ones first."""
    rng = Random(seed)
    return (document(rng, i / count) for i in range(count))


def write_corpus(path: Path, seed: int) -> None:
    """JSON Lines for `pretrain.py`: `told` is read, `text` is read and learned."""
    with path.open("w", encoding="utf-8") as f:
        f.writelines(json.dumps(page) + "\n" for page in documents(seed, DOCUMENTS))


def write_tokenizer_corpus(path: Path, seed: int) -> None:
    """JSON Lines of other pages than the corpus of this seed; the chat frame often enough to become few tokens."""
    frames = [{"told": "", "text": text} for text in ("user\n", "assistant\n", "system\n", SUFFIX)] * 300
    with path.open("w", encoding="utf-8") as f:
        f.writelines(json.dumps(page) + "\n" for page in [*documents(seed + 1, TOKENIZER_DOCUMENTS), *frames])
