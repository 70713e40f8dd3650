"""openai/gsm8k: question, and an answer that ends with `#### n`."""

from __future__ import annotations

from tests.hub.making import parquet

NAMES = ("Ana", "Boris", "Chen", "Dilek", "Emeka", "Freya")
GOODS = ("pencils", "stamps", "apples", "shells", "bolts", "cards")


def files() -> dict[str, bytes]:
    return {
        "README.md": b"---\nlicense: mit\n---\n# GSM8K\n",
        "main/train-00000-of-00001.parquet": parquet([problem(i, 3) for i in range(30)]),
        "main/test-00000-of-00001.parquet": parquet([*(problem(i, 7) for i in range(46)), *odd()]),
        "socratic/test-00000-of-00001.parquet": parquet([{"question": "Never read?", "answer": "No.\n#### 0"}]),
    }


def problem(i: int, factor: int) -> dict[str, str]:
    boxes, each, lost = i + 2, factor + i % 5, i % 4
    total = boxes * each
    name, goods = NAMES[i % 6], GOODS[(i * 5 + i // 6) % 6]
    return {
        "question": f"{name} fills {boxes} boxes with {each} {goods} each and then loses {lost}. How many {goods} are left?",
        "answer": f"In the boxes are {boxes} * {each} = <<{boxes}*{each}={total}>>{total} {goods}.\n"
        f"After the loss {total} - {lost} = <<{total}-{lost}={total - lost}>>{total - lost} are left.\n#### {total - lost}",
    }


def odd() -> list[dict[str, str]]:
    """A thousands comma, a gold below zero, and a near copy of the first problem."""
    return [
        {
            "question": "A mill saws 25 planks an hour for 50 hours. How many planks is that?",
            "answer": "25 * 50 = <<25*50=1250>>1,250.\n#### 1,250",
        },
        {
            "question": "At noon it is 4 degrees, then it gets 9 degrees colder. How many degrees is it now?",
            "answer": "4 - 9 = <<4-9=-5>>-5.\n#### -5",
        },
        {**problem(0, 7), "question": problem(0, 7)["question"].replace("?", " ?").upper()},
    ]
