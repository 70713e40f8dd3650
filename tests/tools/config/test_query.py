"""The three forms of a question; every query of the seed, word for word."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneloop.core.errors import ToolError
from tuneloop.tools.config.catalog import Catalog
from tuneloop.tools.config.query import answer

CONFIGURATION = """
Get parameters for the following configuration:
- Method: lora
- Quantization: 4bit
- Optimizer: standard
- Stage: sft

Provide parameter details including names, types, defaults, and descriptions.
"""
SETUP = """
Get parameters for:
- Method: lora
- Quantization: 4bit
- Optimizer: apollo
- Distributed: deepspeed
Include all relevant parameters grouped by category.
"""
PROPOSAL = """
            Get parameters for:
            - Method: {method}
            - Quantization: {quantization}
            - Optimizer: {optimizer}
            
            Include required, method-specific, and core training parameters.
            """  # noqa: W293 - as the seed has it
PAIRS = """
Get parameters for: method=lora, quantization=4bit
"""


@pytest.mark.parametrize(
    ("query", "decisions", "has", "lacks"),
    [
        (
            CONFIGURATION,
            {"method": "lora", "quantization": "4bit", "optimizer": "standard", "stage": "sft"},
            {"lora_rank", "quantization_bit", "learning_rate"},
            {"freeze_trainable_layers", "oft_rank", "use_apollo", "ppo_epochs"},
        ),
        (
            SETUP,
            {"method": "lora", "quantization": "4bit", "optimizer": "apollo", "distributed": "deepspeed"},
            {"lora_rank", "quantization_bit", "use_apollo", "apollo_rank", "deepspeed"},
            {"use_galore"},
        ),
        (
            PROPOSAL.format(method="full", quantization="none", optimizer="galore"),
            {"method": "full", "quantization": "none", "optimizer": "galore"},
            {"use_galore", "galore_rank", "output_dir", "learning_rate"},
            {"lora_rank", "quantization_bit"},
        ),
        (PAIRS, {"method": "lora", "quantization": "4bit"}, {"lora_rank", "quantization_bit"}, {"use_apollo"}),
        ('{"method": "QLoRA"}', {"method": "lora", "quantization": "4bit"}, {"quantization_bit"}, set()),
    ],
)
def test_decisions(query: str, decisions: dict[str, str], has: set[str], lacks: set[str], catalog: Catalog) -> None:
    found = answer(query, catalog)
    assert (found.kind, found.decisions) == ("decisions", decisions)
    assert 30 <= len(found.names) <= 70
    assert has <= set(found.names)
    assert not lacks & set(found.names)
    assert all(" ".join(catalog.parameters[name].help.split()) in found.text for name in found.names)  # never cut
    assert found.text.count("\n**") >= 5  # categories


def test_a_wrong_decision_is_refused_with_what_is_right(catalog: Catalog) -> None:
    with pytest.raises(ToolError, match="none, 4bit, 8bit"):
        answer("quantization: 5bit", catalog)
    with pytest.raises(ToolError, match="did you mean quantization"):
        answer("method: lora\nquantisation: 4bit", catalog)


def test_the_seeds_comparison(catalog: Catalog) -> None:
    found = answer("Compare LoRA vs Freeze fine-tuning parameters", catalog)
    assert found.kind == "comparison"
    assert found.names[0] == "finetuning_type"
    assert {"lora_rank", "freeze_trainable_layers"} <= set(found.names)


@pytest.mark.parametrize("query", ["What is lora_rank and its default value?", "What is lora_rank?"])
def test_the_seeds_parameter(query: str, catalog: Catalog) -> None:
    found = answer(query, catalog)
    assert (found.kind, found.names, found.exact) == ("search", ("lora_rank",), ("lora_rank",))
    assert str(catalog.parameters["lora_rank"].default) in found.text


def test_the_seeds_list(catalog: Catalog) -> None:
    found = answer("List all parameters for LoRA fine-tuning", catalog)
    assert found.kind == "search"
    assert {"lora_rank", "lora_alpha", "lora_dropout", "lora_target"} <= set(found.names)
    assert "`method: lora`" in found.text  # how to get them all


@pytest.mark.parametrize(
    "query", ["", "   ", "xyzzy plugh", "what is the weather tomorrow", "مرحبا بالعالم", "🦙🦙", "vs"]
)
def test_nothing_is_found_and_said(query: str, catalog: Catalog) -> None:
    found = answer(query, catalog)
    assert (found.kind, found.names) == ("nothing", ())
    assert found.text


@pytest.mark.parametrize("piece", ["a_b ", " ", "\n", "x", "- ", "method:", "a=", "vs ", "compare ", "学", "lora "])
def test_long_texts_are_answered_at_once(piece: str, catalog: Catalog) -> None:
    began = time.process_time()
    with contextlib.suppress(ToolError):
        answer(piece * 5000, catalog)
    assert time.process_time() - began < 2


@settings(max_examples=150)
@given(text=st.text(max_size=300) | st.text(alphabet='abcmethodlr0:=-,"\n*vs 学率"', max_size=80))
def test_any_text_is_answered(text: str, catalog: Catalog) -> None:
    try:
        found = answer(text, catalog)
    except ToolError:
        return
    assert set(found.names) <= set(catalog.parameters)
    assert found == answer(text, catalog)
