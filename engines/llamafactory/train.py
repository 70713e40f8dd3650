"""Train one config with LLaMA-Factory, or merge an adapter: `python train.py train|export CONFIG.yaml` in the engine.

A training goes on from its newest whole checkpoint and never touches an output that is finished. SIGTERM saves after
the step at hand and ends with status 75: unfinished.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import llamafactory.train.sft.workflow as sft
from lf_checkpoints import FINISHED, STATE, drop_weights, flaw, newest_whole, promote, prove_finished
from lf_cost import METER
from lf_watch import STOP, WATCH, WatchedTrainer
from llamafactory.extras.misc import get_device_count, is_env_enabled
from llamafactory.hparams import read_args
from llamafactory.train.tuner import export_model, run_exp

RESUME = "TUNELOOP_RESUME"


def train(args: dict[str, Any]) -> None:
    """Begin, go on, or see that everything is done."""
    out = Path(args["output_dir"])
    if RESUME not in os.environ:
        if done(args, out):
            return
        os.environ[RESUME] = str(newest_whole(out) or "")
        if is_env_enabled("FORCE_TORCHRUN") or get_device_count() > 1:
            spread()
    STOP.listen()
    sft.CustomSeq2SeqTrainer = WatchedTrainer
    sft.get_dataset = METER.timed(sft.get_dataset)
    # LLaMA-Factory would take the newest checkpoint by its number, whole or not; None: there is none left here.
    run_exp({**args, "resume_from_checkpoint": os.environ[RESUME] or None})
    if os.environ.get("RANK", "0") == "0":
        METER.tell(out)
        prove_finished(out)


def done(args: dict[str, Any], out: Path) -> bool:
    """Whether nothing is left to train; else the folder is made ready."""
    if not flaw(out, FINISHED):
        print("this output is finished", flush=True)
        return True
    for name in ("trainer_log.jsonl", WATCH):
        mend(out / name)
    newest = newest_whole(out)
    state = json.loads((newest / STATE).read_text()) if newest else {}
    if newest and state["global_step"] >= state["max_steps"] and not args.get("load_best_model_at_end"):
        # Going on from the last step would take one step too many.
        promote(newest, out)
        return True
    if newest and state["global_step"] >= state["max_steps"]:
        newest.rename(newest.with_name(f"last-{newest.name}"))
    drop_weights(out)
    return False


def mend(log: Path) -> None:
    """Cut a torn last line off, or the next one would be glued to it."""
    if log.is_file():
        whole = log.read_bytes().rpartition(b"\n")
        if whole[2]:
            log.write_bytes(whole[0] + whole[1])


def spread() -> None:
    """Several devices: one process each. Never returns."""
    count = os.environ.get("NPROC_PER_NODE", str(get_device_count()))
    torchrun = ["torchrun", "--standalone", "--nproc_per_node", count, __file__, "train", sys.argv[1]]
    os.execvp(torchrun[0], torchrun)  # noqa: S606


def main() -> None:
    """What the first argument says."""
    command = sys.argv.pop(1)
    train(read_args()) if command == "train" else export_model()


if __name__ == "__main__":
    main()
