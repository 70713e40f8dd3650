"""SaylorTwift/bbh: input and target, a folder for each of the sets; two targets of the real one are no option but its text."""

from __future__ import annotations

from collections.abc import Callable

from tests.hub.making import parquet

COUNT = 10


def files() -> dict[str, bytes]:
    found = {"README.md": b"# BIG-Bench Hard\n"}
    for name, make in SETS.items():
        rows = [dict(zip(("input", "target"), make(k), strict=True)) for k in range(COUNT)]
        found[f"{name}/test-00000-of-00001.parquet"] = parquet(rows)
    return found


def boolean(k: int) -> tuple[str, str]:
    terms = ["True" if (k >> i) & 1 else "False" for i in range(3)]
    value = (k & 1 and k & 2) or not k & 4
    return f"{terms[0]} and {terms[1]} or not {terms[2]} is (number {k})", str(bool(value))


def counting(k: int) -> tuple[str, str]:
    return f"I have {k + 1} flutes, two drums, and {k + 3} harps. How many instruments do I have?", str(2 * k + 6)


def arithmetic(k: int) -> tuple[str, str]:
    return f"(({k} - {2 * k + 5}) * (1 - -{k})) =", str(-(k + 5) * (k + 1))


def sorting(k: int) -> tuple[str, str]:
    words = [
        f"{a}{b}"
        for a, b in zip("quartz", ("ill", "pon", "che", "oof", "ulu", "est")[k % 6 :] + ("a",) * 6, strict=False)
    ]
    return f"Sort the following words alphabetically: List: {' '.join(words)} end{k}", " ".join(
        sorted([*words, f"end{k}"])
    )


def closing(k: int) -> tuple[str, str]:
    opened = [("(", ")"), ("[", "]"), ("{", "}"), ("<", ">")]
    used = [opened[(k + i) % 4] for i in range(2 + k % 3)]
    text = " ".join(o for o, _ in used)
    return f"Complete the rest of the sequence {k}, making sure that the brackets close. Input: {text}", " ".join(
        c for _, c in reversed(used)
    )


def fallacy(k: int) -> tuple[str, str]:
    given, claimed = ("wug", "dax") if k % 2 else ("dax", "wug")
    text = f"Argument {k}: every wug is a dax; this is a {given}. Is it valid or invalid that it is a {claimed}?"
    return text, "valid" if k % 2 else "invalid"


def navigate(k: int) -> tuple[str, str]:
    back = k + 2 if k % 3 else k + 4
    return f"Take {k + 2} steps. Turn around. Take {back} steps. Do you return to the start?\nOptions:\n- Yes\n- No", (
        "Yes" if back == k + 2 else "No"
    )


def shuffled(k: int) -> tuple[str, str]:
    text = f"Ida, Bo and Che swap {k + 1} times round. Who has the key?\nOptions:\n(A) Ida\n(B) Bo\n(C) Che"
    return text, f"({'ABC'[k % 3]})"


def movies(k: int) -> tuple[str, str]:
    text = f"Find a film like number {k}:\nOptions:\n(A) Harbor {k}\n(B) The Lathe\n(C) Monsoon, Inc\n(D) Nine Pins"
    return text, "Monsoon, Inc" if k == 4 else f"({'ABCD'[k % 4]})"


SETS: dict[str, Callable[[int], tuple[str, str]]] = {
    "boolean_expressions": boolean,
    "dyck_languages": closing,
    "formal_fallacies": fallacy,
    "movie_recommendation": movies,
    "multistep_arithmetic_two": arithmetic,
    "navigate": navigate,
    "object_counting": counting,
    "tracking_shuffled_objects_three_objects": shuffled,
    "word_sorting": sorting,
}
