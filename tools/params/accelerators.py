"""What a named device can compute with: `cpu`, `cuda`, or a card such as `cuda:V100`, `T4`, `H200`, `cuda:8.0`."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Compute capability of the cards that people name; longer names first where one holds another.
CARDS = {
    "gb200": 10.0, "gb300": 10.3, "b200": 10.0, "b300": 10.3, "h100": 9.0, "h200": 9.0, "h800": 9.0, "gh200": 9.0,
    "h20": 9.0, "l40": 8.9, "l20": 8.9, "l4": 8.9, "4060": 8.9, "4070": 8.9, "4080": 8.9, "4090": 8.9, "ada": 8.9,
    "a100": 8.0, "a800": 8.0, "a30": 8.0, "a40": 8.6, "a10": 8.6, "a16": 8.6, "a6000": 8.6, "a5000": 8.6,
    "a4000": 8.6, "3060": 8.6, "3070": 8.6, "3080": 8.6, "3090": 8.6, "5070": 12.0, "5080": 12.0, "5090": 12.0,
    "t4": 7.5, "2060": 7.5, "2070": 7.5, "2080": 7.5, "1660": 7.5, "titan rtx": 7.5, "v100": 7.0, "titan v": 7.0,
    "p100": 6.0, "p40": 6.1, "p4": 6.1, "1060": 6.1, "1070": 6.1, "1080": 6.1, "m60": 5.2, "k80": 3.7,
}  # fmt: skip
BF16, TF32, FP8 = 8.0, 8.0, 8.9
OTHERS = ("mps", "npu", "xpu", "mlu", "hpu", "musa")


@dataclass(frozen=True)
class Accelerator:
    """`kind` is cpu, cuda or another backend; `capability` of a CUDA card, None where no card was named."""

    kind: str
    capability: float | None = None
    name: str = ""

    def lacks(self, least: float) -> bool:
        """Whether it is known to be older than that capability."""
        return self.capability is not None and self.capability < least


def is_known(device: str) -> bool:
    """Whether the name says what it is; an unknown card behind `cuda:` is let through."""
    found, kind = accelerator(device), device.strip().lower().partition(":")[0]
    return kind in ("cpu", "cuda", "gpu", *OTHERS) or found.capability is not None


def accelerator(device: str) -> Accelerator:
    """The device behind a name; an unknown card is taken for a present one."""
    name = device.strip().lower()
    kind, _, card = name.partition(":")
    if kind in ("cpu", *OTHERS):
        return Accelerator(kind, name=device)
    rest = card if kind in ("cuda", "gpu") else name
    if re.fullmatch(r"\d{1,2}\.\d", rest):
        return Accelerator("cuda", float(rest), device)
    words = re.sub(r"[^a-z0-9 ]", " ", rest)
    found = next((c for card_name, c in CARDS.items() if re.search(rf"\b{card_name}s?\b", words)), None)
    return Accelerator("cuda", found, device)
