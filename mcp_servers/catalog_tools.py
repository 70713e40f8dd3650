"""Tools of the server `params` that need LLaMA-Factory's sources only, no run: the seed's four, questions, comparisons."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from tuneloop.core.errors import ToolError
from tuneloop.mcp_servers.scope import Scope
from tuneloop.tools.config.catalog import Catalog, Parameter
from tuneloop.tools.config.compare import compare
from tuneloop.tools.config.decision_filter import guidance, why_not
from tuneloop.tools.config.decisions import decision_lines, method_named
from tuneloop.tools.config.installed import find_catalog
from tuneloop.tools.config.names import closest_name, parameter_named
from tuneloop.tools.config.query import answer
from tuneloop.tools.config.source_files import classes_in, parameter_files, read_source, release_constants
from tuneloop.tools.config.templates import templates_like
from tuneloop.tools.config.value_check import RANGES

Name = Annotated[str, Field(min_length=1, max_length=100, description="parameter name, e.g. lora_rank")]
Question = Annotated[
    str,
    Field(
        min_length=1,
        max_length=4000,
        description="decisions as lines 'method: lora', 'quantization: 4bit'; or 'compare A vs B'; or names and words to "
        "search for, e.g. 'lora_rank', 'gradient clipping', 'out of memory'",
    ),
]
File = Annotated[
    str, Field(min_length=1, max_length=200, description="one of list_parameter_files, e.g. finetuning_args.py")
]
Values = Annotated[
    list[str],
    Field(
        min_length=2,
        max_length=4,
        description="methods, values of decisions or parameters, e.g. ['qlora', 'freeze'] or ['quantization=none', '4bit']",
    ),
]
Model = Annotated[str | None, Field(max_length=100, description="part of a model's or template's name; empty: all")]
Constant = Annotated[
    str | None, Field(max_length=100, description="one constant whole, e.g. SUPPORTED_MODELS; empty: all")
]
# Text and no enumeration: other names, such as qlora for a method, are read by the one alias table.
Stage = Annotated[
    str | None, Field(max_length=40, description="sft, pt, rm, ppo, dpo, kto; also e.g. orpo; in a run sft or grpo")
]
Method = Annotated[str | None, Field(max_length=40, description="lora, freeze, oft, full; also e.g. qlora, dora")]
Quantization = Annotated[str | None, Field(max_length=40, description="none, 4bit, 8bit")]
Optimizer = Annotated[str | None, Field(max_length=40, description="standard, apollo, badam, galore")]
Distributed = Annotated[str | None, Field(max_length=40, description="single, ddp, deepspeed, fsdp; also e.g. zero3")]
Precision = Annotated[str | None, Field(max_length=40, description="bf16, fp16, fp32, pure_bf16")]
Strategy = Annotated[str | None, Field(max_length=40, description="normal, streaming, packing")]
Modality = Annotated[str | None, Field(max_length=40, description="text, multimodal")]


class CatalogTools:
    """Functions of the server; each reads the catalog, which is kept in memory until a source file changes."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def list_parameter_files(self) -> dict[str, Any]:
        """Which source files declare the parameters, with their classes and versions."""
        catalog = self._catalog()
        files = [{"name": name, "classes": classes_in(catalog, name)} for name in parameter_files(catalog)]
        return {"count": len(files), "files": files, "folder": "hparams", "versions": dict(catalog.versions)}

    def read_source_file(self, name: File) -> dict[str, Any]:
        """Show the whole text of one source file, e.g. finetuning_args.py, as the installed release has it."""
        found, text = read_source(self._catalog(), name)
        return {"name": found, "lines": text.count("\n"), "text": text}

    def read_constants(self, name: Constant = None) -> dict[str, Any]:
        """Which constants the installed release has, e.g. SUPPORTED_MODELS: methods, stages, file types, templates and more."""
        return {"constants": release_constants(self._catalog(), name)}

    def get_decision_guidance(
        self,
        stage: Stage = None,
        method: Method = None,
        quantization: Quantization = None,
        optimizer: Optimizer = None,
        distributed: Distributed = None,
        precision: Precision = None,
        data_strategy: Strategy = None,
        modality: Modality = None,
    ) -> dict[str, Any]:
        """The eight decisions and their values; with some made, the 30 to 100 parameters that matter, each with why."""
        return guidance(
            self._catalog(),
            made_decisions(stage, method, quantization, optimizer, distributed, precision, data_strategy, modality),
        )

    def query_parameters(self, text: Question) -> dict[str, Any]:
        """Find parameters (options) by words: for a purpose or setup (qlora, packing), what helps against out of memory."""
        return answer(text, self._catalog()).plain

    def describe_parameter(self, name: Name) -> dict[str, Any]:
        """What one parameter (option) means: type, default, choices it may take, usual values, full help, source line."""
        catalog = self._catalog()
        known = parameter_named(name, catalog)
        if known is None:
            close = closest_name(name, catalog)
            hint = f"did you mean {close!r}?" if close else "try query_parameters"
            raise ToolError(f"no parameter {name!r}; {hint}")
        method = None if name in catalog.parameters else method_named(name)
        turned_on = {"turned_on_by": {**decision_lines(method.decisions), **method.writes}} if method else {}
        return describe_parameter(catalog.parameters[known]) | {"matters": why_not(catalog, known, {})} | turned_on

    def compare_methods(self, values: Values) -> dict[str, Any]:
        """Compare methods (lora, freeze, full, oft) or other decisions: the difference, parameters of each, what they share."""
        found = compare(self._catalog(), values)
        sides = [
            {"value": s.name, "meaning": s.meaning, "turned_on_by": dict(s.writes), "own": list(s.own)}
            for s in found.sides
        ]
        return {"sides": sides, "shared": list(found.shared)}

    def list_templates(self, model: Model = None) -> dict[str, Any]:
        """Which chat templates there are; with a model's name those that fit it, the closest first."""
        catalog = self._catalog()
        found = templates_like(model, catalog.templates) if model else sorted(catalog.templates)
        return {"templates": found, "count": len(found), "of": len(catalog.templates)}

    def _catalog(self) -> Catalog:
        return find_catalog(self.scope.settings)


DECISIONS = ("stage", "method", "quantization", "optimizer", "distributed", "precision", "data_strategy", "modality")


def made_decisions(*values: str | None) -> dict[str, str]:
    """The decisions that were made, by name."""
    return {name: value for name, value in zip(DECISIONS, values, strict=True) if value is not None}


def describe_parameter(p: Parameter) -> dict[str, Any]:
    """Plain values; the help is never cut."""
    return {
        "name": p.name,
        "owner": p.owner,
        "type": p.type,
        "default": p.default,
        "choices": list(p.choices),
        "usual": RANGES[p.name].usual if p.name in RANGES else "",
        "settable": p.settable,
        "help": p.help,
        "source": p.source,
    }
