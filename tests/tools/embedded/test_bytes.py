"""What the embedded world consisted of before it got more validation items is the same to the byte."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tuneloop.tools.benchmarks import wordproblems
from tuneloop.tools.datasets import wordproblems as raw
from tuneloop.tools.embedded import corpus
from tuneloop.tools.embedded.make_tiny import SEED
from tuneloop.tools.embedded.problems import VALIDATION, splits

# Made at commit dac3947, which had 200 validation items.
BENCHMARK = {
    "the first validation items": "aae2e144288691d2960e3a4d028b527e7e269a240c8da855f25b9a9c044acaab",
    "the test": "71dca820919e72bd56ac90bc2306f6c73e6b4d37f2ed1b070866e0b12e6b5711",
    "the pool": "c35f5e8567f829fe57c8987af0dec1d4d5c6320db21412574506f38543bf30ad",
}
RAW = {
    "README.md": "882e539ed6b8fdef239e5851595ff9d5ed61ea6a93f668f135d4a2d4cb73419f",
    "chat.json": "abb12ebbecaea600e27f6d6911141c89ed076b3f5cd370bc049a00f1c8b449fe",
    "distilled.jsonl": "30f4558b9ee69e58236ea943b18235b27af71e9415de9832c0d22959f7ef4054",
    "quiz.tsv": "70b9a6dfbbaaf91ccd3fa679d17223afe1f608dd5cf4c18a3d42c9da7829d549",
    "textbook.csv": "35e737dac770382705845fc4b47147d4f131a75f33e1f319f0953476d064bc60",
}
CORPUS = {
    "corpus.jsonl": "807972537648a1af37acfb2b2a5c39480c3d64e00aabd47cbd9b24e656f457d1",
    "tokenizer.jsonl": "0690353440cd6dce36c3301ff61bbd86ffcd5dfd7a0863fdf0ae7419a997ba62",
}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def hashes(folder: Path) -> dict[str, str]:
    return {path.name: sha256(path.read_bytes()) for path in folder.iterdir()}


def test_the_old_items_keep_their_lines(tmp_path: Path) -> None:
    wordproblems.fetch(tmp_path)
    lines = (tmp_path / "validation.jsonl").read_bytes().splitlines(keepends=True)
    assert {
        "the first validation items": sha256(b"".join(lines[:VALIDATION])),
        "the test": sha256((tmp_path / "sealed" / "test.jsonl").read_bytes()),
        "the pool": sha256(repr(splits().pool).encode()),
    } == BENCHMARK


def test_the_raw_data_leak_the_same_rows(tmp_path: Path) -> None:
    raw.fetch(tmp_path)
    assert hashes(tmp_path) == RAW


def test_the_base_model_reads_the_same_corpus(tmp_path: Path) -> None:
    corpus.write_corpus(tmp_path / "corpus.jsonl", SEED)
    corpus.write_tokenizer_corpus(tmp_path / "tokenizer.jsonl", SEED)
    assert hashes(tmp_path) == CORPUS
