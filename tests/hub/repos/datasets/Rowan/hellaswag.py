"""Rowan/hellaswag: contexts in two parts, four endings, the label as a text; WikiHow's rows carry marks in brackets."""

from __future__ import annotations

from tests.hub.making import parquet

DONE = ("sands the board", "rinses the pot", "folds the sail", "tunes the drum", "labels the jars")


def files() -> dict[str, bytes]:
    return {
        "README.md": b"---\nlicense: mit\n---\n",
        "data/validation-00000-of-00001.parquet": parquet([row("val", k) for k in range(48)]),
        "data/train-00000-of-00001.parquet": parquet([row("train", 100 + k) for k in range(20)]),
        "data/test-00000-of-00001.parquet": parquet([{**row("test", 200 + k), "label": ""} for k in range(8)]),
    }


def row(split: str, k: int) -> dict[str, object]:
    how = k % 2 == 0
    right = (k * 5 + k // 4) % 4
    begin, end = ("[header] How to", " [title] Begin slowly.") if how else ("A woman", ".")
    first = f"{begin} {DONE[k % 5]} in workshop number {k}{end}"
    endings = [f"{'[step] ' if how else ''}goes on for {10 + i + k} minutes and stops." for i in range(4)]
    endings[right] = f"{'[step] ' if how else ''}finishes what was begun in workshop number {k}."
    return {
        "ind": 1000 + k,
        "activity_label": f"Crafts {k % 7}",
        "ctx_a": first,
        "ctx_b": "she then",
        "ctx": f"{first} she then",
        "endings": endings,
        "source_id": f"{'wikihow' if how else 'activitynet'}~v_{k // 2}",
        "split": split,
        "split_type": "indomain",
        "label": str(right),
    }
