"""vLLM is taken where it is there and can serve; asked for in vain it is one line."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.tools.evaluation.item_sets import choose_backend, is_servable
from tuneloop.tools.evaluation.run_evaluation import evaluation_conditions

WITH: Any = SimpleNamespace(folder=Path("/oc"), packages={"opencompass": "0.5.4", "vllm": "0.12.0"})
WITHOUT: Any = SimpleNamespace(folder=Path("/oc"), packages={"opencompass": "0.5.4"})


def adapter(root: Path, **more: Any) -> Path:
    root.mkdir(parents=True)
    (root / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 8, "bias": "none", **more}))
    return root


def test_auto_takes_what_is_there(tmp_path: Path) -> None:
    plain, dora = adapter(tmp_path / "plain"), adapter(tmp_path / "dora", use_dora=True)
    assert choose_backend("auto", WITH, "cuda", [plain]) == "vllm"
    assert choose_backend("auto", WITH, "cuda", [plain, dora]) == "hf"
    assert choose_backend("auto", WITH, "cpu") == "hf"
    assert choose_backend("auto", WITHOUT, "cuda") == "hf"
    assert choose_backend("hf", WITH, "cuda") == "hf"
    assert choose_backend("vllm", WITH, "cuda", [dora]) == "vllm"


@pytest.mark.parametrize("backend", ["auto", "hf", "vllm"])
def test_adapters_of_experiments_beside_change_no_conditions(backend: str, tmp_path: Path) -> None:
    run_tools: Any = SimpleNamespace(
        spec=RunSpec(benchmark="b", base_model="m", parallel=2),
        settings=SimpleNamespace(backend=backend, scorer_folder=tmp_path),
        setup=SimpleNamespace(device="cuda"),
        run=RunFolder(tmp_path),
        engine=lambda _: WITH,
    )
    before = evaluation_conditions(run_tools).backend
    adapter(RunFolder(tmp_path).experiment(2).model, use_dora=True)
    assert before == evaluation_conditions(run_tools).backend == ("vllm" if backend == "vllm" else "hf")
    run_tools.spec = run_tools.spec.model_copy(update={"parallel": 1})
    shutil.rmtree(RunFolder(tmp_path).experiments)
    assert evaluation_conditions(run_tools).backend == ("hf" if backend == "hf" else "vllm")


def test_asked_for_in_vain_it_is_one_line_with_the_cure() -> None:
    for engine, device, cure in ((WITHOUT, "cuda", "OPENCOMPASS_PATH"), (WITH, "cpu", "needs a GPU")):
        with pytest.raises(InvalidRequestError, match=cure) as e:
            choose_backend("vllm", engine, device)
        assert "\n" not in str(e.value)
        assert "TUNELOOP_EVAL_BACKEND=auto" in str(e.value)


@pytest.mark.parametrize(
    "more",
    [{"peft_type": "LOHA"}, {"bias": "all"}, {"modules_to_save": ["lm_head"]}, {"use_dora": True}],
)
def test_adapters_that_vllm_cannot_put_on(more: dict[str, Any], tmp_path: Path) -> None:
    assert is_servable(adapter(tmp_path / "plain", modules_to_save=None))
    assert not is_servable(adapter(tmp_path / "odd", **more))
    assert not is_servable(tmp_path / "nowhere")
