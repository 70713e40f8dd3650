"""Train one config with LLaMA-Factory, or merge an adapter: `python train.py train|export CONFIG.yaml` in the engine."""

from __future__ import annotations

import sys

from llamafactory.cli import main

if __name__ == "__main__":
    sys.argv[0] = "llamafactory-cli"
    main()
