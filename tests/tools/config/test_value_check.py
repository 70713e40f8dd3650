"""Words that the checks take, against the engine's own lists of them."""

from __future__ import annotations

import re
from pathlib import Path

from tuneloop.tools.config.value_check import COMPILERS


def test_compilers_are_those_that_accelerate_takes(engine_packages: Path) -> None:
    text = (engine_packages / "accelerate/utils/dataclasses.py").read_text()
    body = text.partition("class DynamoBackend")[2].partition("\nclass ")[0]
    known = {name.lower() for name in re.findall(r'^    \w+ = "(\w+)"$', body, re.MULTILINE)}
    assert known - set(COMPILERS) == {"no", "aot_ts_nvfuser", "nvprims_nvfuser"}
    assert set(COMPILERS) <= known
