"""`make gpu`: what only a GPU shows, in nine minutes at most, with the torch that this machine's python has.

Needs no network, no container and nothing installed: each row is measured in a process of its own, or skipped with its
reason, into `benchmarks/out/gpu.json`. Exit status 1 where a row failed; a row that is skipped fails nothing.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT / "src")]  # tuneloop need not be installed

import gpu_jobs  # noqa: E402
from gpu_training import QWEN2, SMOLLM2, Training, largest_batch, measure, step_operations, tensors  # noqa: E402

from tuneloop.tools.config.memory_estimate import Recipe, estimate_memory  # noqa: E402
from tuneloop.tools.config.model_shape import shape_of_weights  # noqa: E402

OUT = HERE / "out" / "gpu.json"
SECONDS, ROW_SECONDS, LEAST = 530.0, 120.0, 20.0  # of everything, of one row, of a row that is begun
STEPS_SECONDS = 8.0
TOLERANCE = 15.0  # percent by which an estimate of memory may be off
TINY = ROOT / "tools" / "embedded" / "tiny_model"
# Bfloat16 operations a second of dense matrices, in units of 10¹², from the makers' data sheets; longer names first.
PEAKS = {
    "B200": 2250, "H200": 989, "H100 NVL": 835, "H100 PCIe": 756, "H100": 989, "A100": 312, "L40S": 362, "L40": 181, "L4": 121,
    "A40": 150, "A10G": 70, "A10": 125, "A30": 165, "RTX 4090": 165, "RTX 3090": 71, "RTX A6000": 155,
}  # fmt: skip


class SkippedError(Exception):
    """A row cannot be measured here, and why."""


@dataclass(frozen=True)
class Row:
    """One figure: what was measured, or why it was `skipped` or `failed`."""

    name: str
    measured: dict[str, Any] | None = None
    skipped: str = ""
    failed: str = ""


def peak_of(card: str) -> float | None:
    """Operations a second that the card's maker promises; None for a card that is not in the table."""
    return next((1e12 * peak for name, peak in PEAKS.items() if name in card), None)


def needed(name: str) -> Any:
    """A module. Raises SkippedError where it does not import."""
    try:
        return importlib.import_module(name)
    except Exception as e:  # a library that is half there fails in its own ways
        raise SkippedError(f"{name} does not import: {type(e).__name__}: {e}"[:300]) from e


def find_torch() -> Any:
    """Torch with a GPU that it can use. Raises SkippedError."""
    torch = needed("torch")
    if not torch.cuda.is_available():
        raise SkippedError(f"torch {torch.__version__} finds no CUDA device")
    return torch


def expected_bytes(asked: Training, bits: int | None = None) -> int:
    """Our estimate of what tensors take: without the driver's own share, which torch does not count."""
    recipe = Recipe(
        method="full" if asked.full else "lora",
        tokens=asked.tokens,
        batch=asked.batch,
        checkpointing=asked.checkpointing,
        bits=bits,
    )
    found = estimate_memory(shape_of_weights(asked.sizes, tensors(asked.sizes)), recipe)
    return found.total - found.runtime


def compared(expected: int, allocated: int) -> dict[str, Any]:
    """The estimate beside what was allocated at most."""
    error = 100 * (expected / allocated - 1)
    return {
        "estimated_bytes": expected, "allocated_bytes": allocated, "estimate_error_percent": round(error, 1),
        "estimate_within_15_percent": abs(error) <= TOLERANCE,
    }  # fmt: skip


def cuda() -> dict[str, Any]:
    """The card, and whether two matrices are multiplied on it as on the processor."""
    torch = find_torch()
    facts = torch.cuda.get_device_properties(0)
    one = torch.randn(512, 512, dtype=torch.float64)
    wrong = float((one.cuda() @ one.cuda()).cpu().sub(one @ one).abs().max())
    if wrong > 1e-9:
        raise ValueError(f"a product is off by {wrong}")
    return {
        "card": facts.name, "capability": f"{facts.major}.{facts.minor}", "memory_bytes": facts.total_memory,
        "cards": torch.cuda.device_count(), "torch": torch.__version__, "cuda": torch.version.cuda,
    }  # fmt: skip


def bf16() -> dict[str, Any]:
    """Operations a second of bfloat16 matrices, against the card's peak."""
    torch = find_torch()
    if not torch.cuda.is_bf16_supported():
        raise SkippedError("this card has no bfloat16")
    size, rounds = 8192, 50
    one = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
    wrong = float(((one[:256] @ one).float() / (one[:256].float() @ one.float()) - 1).abs().median())
    for _ in range(5):
        one @ one
    torch.cuda.synchronize()
    began = time.monotonic()
    for _ in range(rounds):
        one @ one
    torch.cuda.synchronize()
    speed = rounds * 2.0 * size**3 / (time.monotonic() - began)
    return {
        "operations_per_second": speed,
        "share_of_peak": share(speed, torch.cuda.get_device_name(0)),
        "median_error": wrong,
    }


def share(speed: float, card: str) -> float | None:
    """Of the card's peak."""
    peak = peak_of(card)
    return None if peak is None else round(speed / peak, 4)


def training(asked: Training) -> dict[str, Any]:
    """A short training: loss, speed, memory beside the estimate."""
    torch = find_torch()
    torch.manual_seed(1)
    torch.cuda.reset_peak_memory_stats()
    found = measure(torch, asked, "cuda", STEPS_SECONDS)
    if not math.isfinite(found["last_loss"]) or found["last_loss"] >= found["first_loss"]:
        raise ValueError(f"the loss does not fall: {found['first_loss']} → {found['last_loss']}")
    found |= compared(expected_bytes(asked), torch.cuda.max_memory_allocated())
    speed = step_operations(asked.sizes, asked.batch * asked.tokens, full=asked.full) / found["seconds_per_step"]
    classes = "transformers" if importlib.util.find_spec("transformers") else "plain torch"
    return {
        **found,
        "reserved_bytes": torch.cuda.max_memory_reserved(),
        "share_of_peak": share(speed, torch.cuda.get_device_name(0)),
        "classes": classes,
    }


def out_of_memory() -> dict[str, Any]:
    """A batch that is far too large is told apart from other failures, and halved until it fits."""
    torch = find_torch()

    def attempt(batch: int) -> None:
        gc.collect()
        torch.cuda.empty_cache()
        measure(torch, Training(SMOLLM2, full=False, batch=batch, tokens=1024), "cuda", 0.0)

    batch, said = largest_batch(attempt, 4096, torch.cuda.OutOfMemoryError)
    if not (batch and said):
        raise ValueError(f"batch {batch}, {said or 'memory was never out'}")
    return {"said": said[:300], "fits": batch, "recognised_as": recognised(said)}


def recognised(said: str) -> str:
    """The cure that the offline policy names. Raises ValueError where it takes the text for something else."""
    found = next((one for one in needed("tuneloop.agents.policy.validator").FAILURES if one.found(said)), None)
    if found is None or "batch" not in found.repair:
        raise ValueError(f"not recognised: {said[:200]}")
    return str(found.repair)


def two_jobs() -> dict[str, Any]:
    """Two jobs that do not fit one card together: the second waits; one that fits no card is refused."""
    find_torch()
    memory = needed("tuneloop.sandboxes.local").gpu_memory()
    devices, tasks = needed("tuneloop.tools.batch.devices"), needed("tuneloop.tools.batch.tasks")
    errors = importlib.import_module("tuneloop.core.errors")
    if not memory:
        raise SkippedError("nvidia-smi is not there")
    card = max(memory.values())

    def task(name: str, size: int) -> Any:
        return tasks.BatchTask(run_id=name, benchmark="b", model="m", options={}, gpus=len(memory), device_memory=size)

    held = devices.Devices(memory)
    first, second = task("first", 6 * card // 10), task("second", 6 * card // 10)
    taken, waits = held.take(first), held.take(second) is None
    held.give_back(first)
    then = held.take(second)
    try:
        held.check(task("large", 2 * card))
        refused = ""
    except errors.InvalidRequestError as e:
        refused = str(e)
    if not (taken and waits and then and refused):
        raise ValueError(f"taken {taken}, second waits {waits}, then {then}, refused {refused!r}")
    return {"cards": sorted(memory), "second_waits": waits, "refused": refused}


def qlora() -> dict[str, Any]:
    """One matrix of four bits: the memory it takes, and how far a product is off."""
    torch, library = find_torch(), needed("bitsandbytes")
    plain = torch.nn.Linear(4096, 4096, bias=False, dtype=torch.bfloat16)
    four = library.nn.Linear4bit(4096, 4096, bias=False, compute_dtype=torch.bfloat16, quant_type="nf4")
    four.load_state_dict(plain.state_dict())
    four = four.cuda()
    took = torch.cuda.memory_allocated()
    plain = plain.cuda()
    x = torch.randn(64, 4096, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    said = four(x)
    said.sum().backward()
    wrong = float((said - plain(x)).float().norm() / plain(x).float().norm())
    if wrong > 0.2 or x.grad is None:
        raise ValueError(f"products are off by {wrong}")
    return {"bitsandbytes": library.__version__, "relative_error": wrong, "bytes_per_weight": took / 4096**2}


def killed_training() -> dict[str, Any]:
    """The embedded model by our training job: killed and gone on, it ends with the weights of an undisturbed one."""
    find_torch()
    needed("llamafactory")
    found = gpu_jobs.killed_training()
    if found["resumed_weights_differ_by_at_most"] > 1e-3:
        raise ValueError(f"another training: {found}")
    return found


def job(asked: Training, **more: Any) -> dict[str, Any]:
    """Our training job on that shape: the loss falls, its memory beside the estimate, its speed."""
    torch = find_torch()
    needed("llamafactory")
    if "quantization_bit" in more:
        needed("bitsandbytes")
    found = gpu_jobs.measured_job(torch, asked, **more)
    found |= compared(expected_bytes(asked, more.get("quantization_bit")), found["allocated_bytes"])
    speed = step_operations(asked.sizes, asked.batch * asked.tokens, full=asked.full) / found["seconds_per_step"]
    return {**found, "share_of_peak": share(speed, torch.cuda.get_device_name(0))}


def grpo() -> dict[str, Any]:
    """The embedded model by our GRPO job, replies drawn on the card."""
    find_torch()
    if not needed("trl").__version__.startswith("1."):
        raise SkippedError("the trl of this python is not that of GRPO's engine")
    return gpu_jobs.grpo()


def vllm() -> dict[str, Any]:
    """The embedded model answers through vLLM, twice the same."""
    find_torch()
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    library = needed("vllm")
    model = library.LLM(str(TINY), dtype="bfloat16", gpu_memory_utilization=0.3, enforce_eager=True, seed=1)
    how = library.SamplingParams(temperature=0, max_tokens=32)
    chats = [[{"role": "user", "content": f"What is {n} + 1?"}] for n in range(8)]
    one, other = ([said.outputs[0].token_ids for said in model.chat(chats, how)] for _ in range(2))
    if list(one) != list(other):
        raise ValueError("the same prompts were answered in two ways")
    return {"vllm": library.__version__, "answers": len(one)}


ROWS: dict[str, Callable[[], dict[str, Any]]] = {
    "CUDA": cuda,
    "bfloat16 matrices": bf16,
    "LoRA, SmolLM2-135M's shape": lambda: training(Training(SMOLLM2, full=False, batch=16, tokens=1024)),
    "full, SmolLM2-135M's shape": lambda: training(Training(SMOLLM2, full=True, batch=16, tokens=1024)),
    "LoRA, Qwen2-1.5B's shape": lambda: training(Training(QWEN2, full=False, batch=8, tokens=1024)),
    "full, Qwen2-1.5B's shape": lambda: training(Training(QWEN2, full=True, batch=4, tokens=1024)),
    "out of memory": out_of_memory,
    "two jobs on one card": two_jobs,
    "four bits by bitsandbytes": qlora,
    "a killed training goes on": killed_training,
    "our job, LoRA, SmolLM2-135M's shape": lambda: job(Training(SMOLLM2, full=False, batch=16, tokens=1024)),
    "our job, full, SmolLM2-135M's shape": lambda: job(Training(SMOLLM2, full=True, batch=16, tokens=1024)),
    "our job, QLoRA, Qwen2-1.5B's shape": lambda: job(
        Training(QWEN2, full=False, batch=4, tokens=1024), quantization_bit=4
    ),
    "GRPO": grpo,
    "vLLM": vllm,
}


def one_row(name: str) -> Row:
    """Measured in this process."""
    began = time.monotonic()
    try:
        return Row(name, measured={**ROWS[name](), "row_seconds": round(time.monotonic() - began, 1)})
    except SkippedError as e:
        return Row(name, skipped=str(e))
    except Exception as e:  # noqa: BLE001 - a row that fails is a finding, and the others go on
        return Row(name, failed=f"{type(e).__name__}: {e}"[:500])


def row_apart(name: str, seconds: float) -> Row:
    """Measured in a process of its own: it leaves no memory behind, and ends in time."""
    with tempfile.TemporaryDirectory() as place:
        out, log = Path(place) / "row.json", Path(place) / "log.txt"
        with log.open("wb") as f:
            argv = [sys.executable, str(Path(__file__).resolve()), "--row", name, "--out", str(out)]
            try:
                done = subprocess.run(argv, stdout=f, stderr=f, timeout=seconds, check=False).returncode
            except subprocess.TimeoutExpired:
                return Row(name, failed=f"not over after {seconds:.0f} s")
        if out.is_file():
            return Row(**json.loads(out.read_text()))
        return Row(name, failed=f"exit status {done}: {log.read_text(errors='replace')[-300:]}")


def all_rows(names: Sequence[str], seconds: float) -> Iterator[Row]:
    """Each row, or why there is none: without a GPU that is found out once."""
    began = time.monotonic()
    try:
        find_torch()
        missing = ""
    except SkippedError as e:
        missing = str(e)
    for name in names:
        left = seconds - (time.monotonic() - began)
        why = missing or (f"{max(0.0, left):.0f} s are left of {seconds:.0f} s" if left < LEAST else "")
        yield Row(name, skipped=why) if why else row_apart(name, min(ROW_SECONDS, left))


def told(row: Row) -> str:
    """A line for people."""
    if row.measured is None:
        return f"{row.name}: {'FAILED: ' + row.failed if row.failed else 'skipped: ' + row.skipped}"
    return f"{row.name}: {json.dumps(row.measured)}"


def write(out: Path, value: Any) -> None:
    """All or nothing."""
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f".{out.name}.part")
    part.write_text(json.dumps(value, indent=1) + "\n")
    part.replace(out)


def main() -> int:
    """All rows, or in the process of one row that one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(ROWS), default=list(ROWS), help="these rows alone")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"of all rows together (default: {SECONDS:.0f})")
    parser.add_argument("--out", type=Path, default=OUT, help=f"rows as JSON (default: {OUT})")
    parser.add_argument("--row", choices=list(ROWS), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.row:
        write(given.out, asdict(one_row(given.row)))
        return 0
    rows = []
    for row in all_rows(given.only, given.seconds):
        rows.append(row)
        print(told(row), flush=True)
        write(given.out, [asdict(row) for row in rows])
    return int(any(row.failed for row in rows))


if __name__ == "__main__":
    sys.exit(main())
