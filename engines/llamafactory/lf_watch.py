"""Beside the engine's trainer: proofs of checkpoints, an end on request after the step at hand, and what a watch reads.

`pulse.json` is the state of the last second, `watch.jsonl` one row for each logged step. Times are of CLOCK_MONOTONIC,
which all processes of a machine share and which no clock jump changes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from lf_checkpoints import RUNNING_LOSS, prove_checkpoint, write
from lf_cost import age
from lf_processes import PROCESSES, UNFINISHED
from transformers import Trainer, TrainerCallback

DISCARD = "discard"  # a file of this name beside the config: end without saving, what is saved is better
PULSE, WATCH = "pulse.json", "watch.jsonl"
PULSE_SECONDS = 1.0
LOG_STEPS = 25  # at most so many between two logged steps: a long run is watched as closely as a short one
SAVE_SECONDS = 1800.0  # at most so long without a checkpoint
STEPS_SEEN = 50
SAMPLES, SAMPLE_SIZE = 64, 1024
PAGE = os.sysconf("SC_PAGE_SIZE")


class Stop:
    """Whether somebody asked the training to end. Before it has begun there is nothing to save: it ends at once."""

    def __init__(self) -> None:
        self.begun = self.asked = False

    def __call__(self, *_: object) -> None:
        """The handler of SIGTERM."""
        if not self.begun:
            os._exit(UNFINISHED)
        self.asked = True

    def listen(self) -> None:
        """From now on."""
        signal.signal(signal.SIGTERM, self)


def agreed(*wishes: bool) -> list[bool]:
    """Whether any process of this training has each directive: the same answer in all of them."""
    if not dist.is_initialized():
        return list(wishes)
    flags = torch.tensor([float(w) for w in wishes], device="cuda" if torch.cuda.is_available() else "cpu")
    dist.all_reduce(flags, op=dist.ReduceOp.MAX)
    return [bool(flag) for flag in flags.tolist()]


def mean_of_all(value: torch.Tensor) -> torch.Tensor:
    """The mean of this number over all processes of the training."""
    if not dist.is_initialized():
        return value
    summed = value.detach().clone()
    dist.all_reduce(summed)
    return summed / dist.get_world_size()


STOP = Stop()
LOGGED = {name: name for name in ("loss", "grad_norm", "learning_rate", "eval_loss")}


class CheckpointCallback(TrainerCallback):
    """Proves checkpoints in the background, ends on request, writes pulse and watch."""

    def __init__(self, trainer: Trainer, logged: Mapping[str, str] = LOGGED, every: int = 1) -> None:
        """`logged`: what the trainer logs, and how a row calls it. `every`: steps between two where it may end or save."""
        self.trainer, self.logged, self.every = trainer, logged, every
        self.out = Path(trainer.args.output_dir)
        self.discard = Path(sys.argv[1]).with_name(DISCARD)
        self.began = born()
        self.first = time.monotonic()
        self.ends: deque[float] = deque(maxlen=STEPS_SEEN)
        self.longest = self.save_seconds = self.said = 0.0
        self.saving_since = time.monotonic()
        self.saved_bytes = 0
        self.start: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.prover = ThreadPoolExecutor(max_workers=1)
        self.proof: Future[None] | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Go on with the loss that was summed up since the last logged step; remember where the weights were."""
        STOP.begun = True
        state.logging_steps = min(state.logging_steps, LOG_STEPS)
        if args.resume_from_checkpoint:
            self.restore_loss(Path(args.resume_from_checkpoint))
        trained = [p for p in kwargs["model"].parameters() if p.requires_grad and p.numel()]
        chosen = trained[:: max(1, len(trained) // SAMPLES)]
        self.start = [(p, sample(p).clone()) for p in chosen]
        self.pulse(state, now=True)

    def restore_loss(self, checkpoint: Path) -> None:
        """A checkpoint lies between two logged steps: without this the next logged loss would leave steps out."""
        file = checkpoint / RUNNING_LOSS
        if file.is_file() and hasattr(self.trainer, "_tr_loss"):
            kept = json.loads(file.read_text())
            self.trainer._tr_loss += kept["sum"]
            self.trainer._total_loss_scalar = kept["total"]
            self.trainer._globalstep_last_logged = kept["logged"]

    def summed_loss(self) -> dict[str, Any]:
        """That sum, the mean of all processes, which each must ask for; a float32 is the same after JSON."""
        t = self.trainer
        if not hasattr(t, "_tr_loss"):
            return {}
        return {
            "sum": mean_of_all(t._tr_loss).item(),
            "total": t._total_loss_scalar,
            "logged": t._globalstep_last_logged,
        }

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Called after everybody else: what is to be saved is known."""
        now = time.monotonic()
        if self.ends:
            self.longest = max(self.longest, now - self.ends[-1])
        self.ends.append(now)
        if state.global_step % self.every and state.global_step < state.max_steps:
            control.should_save = False
            self.pulse(state)
            return
        saves = args.save_strategy != "no"
        STOP.asked, due = agreed(STOP.asked, saves and now - self.saving_since > SAVE_SECONDS)
        control.should_save |= due
        if STOP.asked and state.global_step < state.max_steps:
            if not saves or self.discard.exists():
                self.leave()
            control.should_save = True
        if control.should_save:
            self.await_proof()
            self.saving_since = time.monotonic()
        self.pulse(state, now=control.should_save)

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """An evaluation is no stall."""
        self.pulse(state)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Prove what was saved: in the background, or at once when it is the end."""
        checkpoint = self.out / f"checkpoint-{state.global_step}"
        summed = self.summed_loss()
        if dist.is_initialized():
            dist.barrier()
        if args.should_save and checkpoint.is_dir():
            if summed:
                write(checkpoint / RUNNING_LOSS, summed)
            write(checkpoint / PROCESSES, {"count": args.world_size, "split": self.trainer.is_deepspeed_enabled})
            self.saved_bytes = sum(p.stat().st_size for p in checkpoint.rglob("*") if p.is_file())
            self.proof = self.prover.submit(prove_checkpoint, checkpoint)
        ends = STOP.asked and state.global_step < state.max_steps
        if ends:
            self.leave()
        self.save_seconds = max(self.save_seconds, time.monotonic() - self.saving_since)
        self.pulse(state, now=True)

    def await_proof(self) -> None:
        """An older checkpoint may be deleted only when the newer one is proved."""
        if self.proof is not None:
            self.proof.result()
            self.proof = None

    def leave(self) -> None:
        """End here, unfinished: the first process when all is proved, and the others by it (`lf_processes.py`)."""
        self.await_proof()
        while dist.is_initialized() and dist.get_rank():
            time.sleep(1)
        if dist.is_initialized():
            sys.stdout.flush()
            os._exit(UNFINISHED)  # what connects the processes takes its time to be taken apart
        sys.exit(UNFINISHED)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """The last proof is made before the training ends."""
        self.await_proof()
        self.pulse(state, now=True)

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """One row, on its way to the disk when this returns."""
        found = {self.logged[k]: v for k, v in kwargs["logs"].items() if k in self.logged}
        if not found or not args.should_save:
            return
        row = {
            "step": state.global_step,
            "of": state.max_steps,
            "at": time.monotonic(),
            **found,
            **self.measured(state),
        }
        with (self.out / WATCH).open("a") as f:
            f.write(json.dumps(row) + "\n")

    def measured(self, state: Any) -> dict[str, float | None]:
        """Seconds per step, tokens per second, memory in bytes, largest change of a sampled weight since the start."""
        seconds, tokens = time.monotonic() - self.first, state.num_input_tokens_seen
        return {
            "step_seconds": self.step_seconds(),
            "tokens_per_second": tokens / seconds if tokens else None,
            "memory": resident(),
            "device_memory": torch.cuda.max_memory_reserved() if torch.cuda.is_initialized() else None,
            "moved": max((float((sample(p) - old).abs().max()) for p, old in self.start), default=None),
        }

    def step_seconds(self) -> float | None:
        """Mean of the last steps, saving and evaluating included."""
        return (self.ends[-1] - self.ends[0]) / (len(self.ends) - 1) if len(self.ends) > 1 else None

    def pulse(self, state: Any, now: bool = False) -> None:
        """Say that it lives, at most once a second."""
        at = time.monotonic()
        if (not now and at - self.said < PULSE_SECONDS) or not self.trainer.args.should_save:
            return
        self.said = at
        value = {
            "step": state.global_step,
            "of": state.max_steps,
            "at": at,
            "began": self.began,
            "step_seconds": self.step_seconds(),
            "longest": self.longest,
            "save_seconds": self.save_seconds,
            "saved_bytes": self.saved_bytes,
            "memory": resident(),
        }
        part = self.out / f".{PULSE}.part"
        part.write_text(json.dumps(value))
        part.replace(self.out / PULSE)


def born() -> float:
    """When this process began, on the monotonic clock: its imports and the loading of the model count."""
    return time.monotonic() - age()


def sample(parameter: torch.Tensor) -> torch.Tensor:
    """Some of a parameter's numbers, as float32."""
    return parameter.detach().flatten()[:SAMPLE_SIZE].float()


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
