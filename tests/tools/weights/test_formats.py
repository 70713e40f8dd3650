"""A base model that needs code of its own is refused in one line; one that transformers knows is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import write_atomic, write_json
from tuneloop.tools.engines import Engine
from tuneloop.tools.weights.formats import check_architecture

CODE = {"AutoModelForCausalLM": "modeling_evil.Evil"}


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    folder = tmp_path / "engine"
    tables = folder / "lib/python3.11/site-packages/transformers/models/auto"
    write_atomic(tables / "auto_mappings.py", 'CONFIG_MAPPING_NAMES = OrderedDict([("qwen2", "Qwen2Config")])\n')
    return Engine(
        name="llamafactory", folder=folder, python=folder / "bin/python", bin=folder / "bin", readable=(), version="1",
        identity="e", packages={"transformers": "5.6.0"},
    )  # fmt: skip


def test_a_known_architecture_is_loaded_by_transformers_own_code(engine: Engine, tmp_path: Path) -> None:
    write_json(tmp_path / "m" / "config.json", {"model_type": "qwen2", "auto_map": CODE})
    check_architecture(tmp_path / "m", engine)


@pytest.mark.parametrize("config", [{"model_type": "evil", "auto_map": CODE}, {"model_type": "qwen"}, {}])
def test_an_unknown_one_is_refused(config: dict[str, object], engine: Engine, tmp_path: Path) -> None:
    write_json(tmp_path / "m" / "config.json", config)
    with pytest.raises(
        InvalidRequestError, match=r"transformers 5\.6\.0 of the llamafactory engine does not know"
    ) as e:
        check_architecture(tmp_path / "m", engine)
    assert ("never run" in str(e.value)) == ("auto_map" in config)
    assert "\n" not in str(e.value)


def test_a_pickle_that_its_configuration_names_is_not_loaded(engine: Engine, tmp_path: Path) -> None:
    write_json(tmp_path / "m" / "config.json", {"model_type": "qwen2", "transformers_weights": "adapter_model.bin"})
    with pytest.raises(InvalidRequestError, match=r"names 'adapter_model\.bin' .* never loaded; right is"):
        check_architecture(tmp_path / "m", engine)


def test_the_real_engines_know_the_embedded_model(llamafactory: Engine, opencompass: Engine, tiny: Path) -> None:
    for real in (llamafactory, opencompass):
        check_architecture(tiny, real)
