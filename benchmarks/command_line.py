"""What a person waits for before anything runs: help, and the refusal of a wrong config."""

from __future__ import annotations

import time

from figures import figure
from place import Place
from processes import TUNELOOP, environment, spend, well
from stock import plain_environment

from tuneloop.tools.config.check import check_config
from tuneloop.tools.config.installed import installed_catalog
from tuneloop.tools.config.model_card import read_model_card

BAD = "finetuning_type: lora\nlearning_rat: 0.001\ncutoff_len: 256\n"
CHECKS = 50


@figure("tuneloop --help", "CPU s", "<= 0.3")
def start_up(place: Place) -> float:
    """From the shell to the help text; the least of three."""
    log = place.root / "help.txt"
    env = environment(place.home)
    return min(well(spend([*TUNELOOP, "--help"], env=env, log=log), log).cpu for _ in range(3))


@figure("refusal of a misspelt key, ours / stock", "ratio", "<= 0.01")
def refusal(place: Place) -> float:
    """`check_config` against `llamafactory-cli train` until it refuses the same file."""
    engine = place.engines["llamafactory"]
    catalog, card = installed_catalog(engine), read_model_card(place.tiny)
    began = time.process_time()
    for _ in range(CHECKS):
        if not check_config(BAD, catalog, card, "cpu"):
            raise RuntimeError("our check let a misspelt key pass")
    ours = (time.process_time() - began) / CHECKS
    config = place.root / "bad.yaml"
    config.write_text(BAD + f"model_name_or_path: {place.tiny}\nstage: sft\ndo_train: true\n")
    argv = (str(engine.bin / "llamafactory-cli"), "train", str(config))
    env = {**plain_environment(place, "llamafactory"), "DISABLE_VERSION_CHECK": "1"}
    stock = spend(argv, env=env, cwd=place.root, log=place.root / "refusal.txt")
    if stock.end == 0:
        raise RuntimeError("the stock tool let a misspelt key pass")
    return ours / stock.cpu
