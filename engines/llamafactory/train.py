"""Train one config with LLaMA-Factory, or merge an adapter: `python train.py train|export CONFIG.yaml` in the engine.

A training goes on from its newest whole checkpoint and never touches an output that is finished. SIGTERM saves after
the step at hand and ends with status 75: unfinished.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llamafactory.train.sft.workflow as sft
import torch
from lf_checkpoints import is_done, newest_whole, prove_finished
from lf_cost import METER, clocks, since
from lf_paths import take_paths_literally
from lf_processes import FORCED, check_resumable, follow_first, own_node, own_share, process_count, run_together
from lf_watch import STOP, CheckpointCallback
from llamafactory.extras.misc import get_device_count, is_env_enabled
from llamafactory.hparams import read_args
from llamafactory.train.sft.trainer import CustomSeq2SeqTrainer
from llamafactory.train.tuner import export_model, run_exp
from torch.serialization import register_package

RESUME = "TUNELOOP_RESUME"
HALF = ("bf16", "fp16", "pure_bf16")
# Worker processes hand rows over by sockets of their own. Without them this process makes the same rows, alone.
WORKERS = (
    "preprocessing_num_workers",
    "dataloader_num_workers",
    "dataloader_prefetch_factor",
    "dataloader_persistent_workers",
)


def train(args: dict[str, Any]) -> None:
    """Begin, go on, or see that everything is done."""
    out = Path(args["output_dir"])
    if RESUME not in os.environ:
        argv = [__file__, "train", sys.argv[1]]
        if own_node():
            follow_first(argv, get_device_count())
        if is_done(out, best_at_end=bool(args.get("load_best_model_at_end"))):
            return
        os.environ[RESUME] = str(newest_whole(out) or "")
        nodes, count = process_count(get_device_count(), args)
        check_resumable(os.environ[RESUME], nodes * count)
        if is_env_enabled(FORCED) or get_device_count() > 1:
            run_together(argv, count, nodes=nodes, env={RESUME: os.environ[RESUME]})
    args = own_share(args, int(os.environ.get("WORLD_SIZE", "1")))
    STOP.listen()
    # Each of several processes on a CPU calls its device cpu:0, where PyTorch loads no optimizer's state.
    register_package(0, lambda _: None, lambda stored, place: stored if place.startswith("cpu:") else None)
    take_paths_literally()
    sft.CustomSeq2SeqTrainer = WatchedTrainer
    sft.get_dataset = METER.timed(sft.get_dataset)
    if args.get("finetuning_type") == "freeze" and not any(args.get(name) for name in HALF):
        sft.load_model = in_float32(sft.load_model)
    # LLaMA-Factory would take the newest checkpoint by its number, whole or not; None: there is none left here.
    run_exp({**without_workers(args), "resume_from_checkpoint": os.environ[RESUME] or None})
    if os.environ.get("RANK", "0") == "0":
        METER.tell(out)
        prove_finished(out)


def in_float32(load: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, the whole model in float32.

    LLaMA-Factory makes trained layers float32 and leaves frozen ones as they are stored; without mixed precision a layer in
    bfloat16 cannot take what one in float32 gives.
    """

    def loaded(*args: Any, **kwargs: Any) -> Any:
        return load(*args, **kwargs).float()

    return loaded


def without_workers(args: dict[str, Any]) -> dict[str, Any]:
    """The arguments for where this process may make a socket; else those that need none. Exits where there are none such."""
    named = [name for name in WORKERS if args.get(name)]
    try:
        socket.socket(socket.AF_UNIX).close()
    except OSError:
        if args.get("streaming"):
            sys.exit(
                "streaming reads by worker processes, which need sockets; this sandbox has none: right is streaming: false"
            )
        if named:
            print(f"this sandbox has no sockets for worker processes: {', '.join(named)} left out", flush=True)
        return {name: value for name, value in args.items() if name not in named}
    return args


class WatchedTrainer(CustomSeq2SeqTrainer):
    """The engine's trainer with a meter and, called last, a supervisor beside it."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_callback(METER)
        self.add_callback(CheckpointCallback(self))

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> Any:
        """The next step begins."""
        METER.fetching()
        return super().get_batch_samples(*args, **kwargs)

    def training_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """One batch of it."""
        METER.fed(inputs)
        return super().training_step(model, inputs, *args, **kwargs)

    def save_model(self, *args: Any, **kwargs: Any) -> None:
        """Also where a checkpoint holds the model."""
        began = clocks()
        super().save_model(*args, **kwargs)
        METER.save = since(began)


def main() -> None:
    """What the first argument says."""
    torch.set_num_threads(int(os.environ.get("TUNELOOP_JOB_THREADS", torch.get_num_threads())))
    command = sys.argv.pop(1)
    train(read_args()) if command == "train" else export_model()


if __name__ == "__main__":
    main()
