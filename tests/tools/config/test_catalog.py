import shutil
from pathlib import Path

import pytest

from tuneloop.core.errors import InvalidRequestError
from tuneloop.tools.config.catalog import HPARAMS, ROOTS, TRANSFORMERS, Catalog, load_catalog

HEAD = "from dataclasses import dataclass, field\nfrom typing import Literal, Optional\n"


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A release in small: every shape that the reader must understand."""
    factory, transformers = tmp_path / "llamafactory", tmp_path / "transformers"
    for folder in (factory / "hparams", factory / "extras", factory / "data", transformers):
        folder.mkdir(parents=True)
    for package in (factory, transformers):
        (package / "__init__.py").touch()
    for name, root in zip(HPARAMS, ROOTS, strict=True):
        (factory / "hparams" / f"{name}.py").write_text(f"{HEAD}@dataclass\nclass {root}:\n    {name}_x: int = 1\n")
    for name in TRANSFORMERS:
        (transformers / f"{name}.py").write_text(HEAD)
    (factory / "extras/constants.py").write_text('class Engine(StrEnum):\n    HF = "huggingface"\n    V = "vllm"\n')
    (factory / "data/template.py").write_text(
        'register_template(\n    name="t",\n'
        '    format_user=StringFormatter(slots=["<u>{{content}}", {"token": "<a>"}]),\n'
        '    format_assistant=StringFormatter(slots=["{{content}}</s>"]),\n    stop_words=["</s>"],\n)\n'
    )
    return tmp_path


def write(sources: Path, where: str, body: str) -> Catalog:
    (sources / where).write_text(HEAD + body)
    return load_catalog(sources)


def test_reads_type_choices_default_and_help(sources: Path) -> None:
    found = write(
        sources,
        "llamafactory/hparams/data_args.py",
        "@dataclass\nclass DataArguments:\n"
        '    mode: Literal["a", "b"] | None = field(default=None, metadata={"help": ("one " "two")})\n'
        "    pixels: int = field(default=3 * 4)\n"
        '    backend: Engine = field(default=Engine.V, metadata={"help": "x"})\n'
        "    many: Optional[list[str]] = field(default_factory=list)\n"
        "    hidden: int = field(default=0, init=False)\n",
    ).parameters
    assert found["mode"].choices == ("a", "b")
    assert found["mode"].kinds == {"none"}
    assert found["mode"].help == "one two"
    assert found["mode"].source == "hparams/data_args.py:5"
    assert found["pixels"].default == 12
    assert (found["backend"].default, found["backend"].choices) == ("vllm", ("huggingface", "vllm"))
    assert found["many"].kinds == {"list", "none"}
    assert found["many"].default == []
    assert not found["hidden"].settable
    assert found["mode"].settable


def test_merges_bases_and_follows_the_alias(sources: Path) -> None:
    (sources / "transformers/training_args.py").write_text(
        f'{HEAD}@dataclass\nclass TrainingArguments:\n    default_optim = "adamw"\n    deep: int = 1\n'
        "    both: int = 1\n    optim: str = field(default=default_optim)\n"
    )
    (sources / "transformers/training_args_seq2seq.py").write_text(
        f"{HEAD}@dataclass\nclass Seq2SeqTrainingArguments(TrainingArguments):\n    both: float = 2.0\n"
    )
    found = write(
        sources,
        "llamafactory/hparams/training_args.py",
        "if MCA:\n    Base = Other\nelse:\n    Base = Seq2SeqTrainingArguments\n"
        "@dataclass\nclass Ray:\n    rays: int = 3\n@dataclass\nclass TrainingArguments(Ray, Base):\n    own: bool = True\n",
    ).parameters
    assert {"deep", "both", "rays", "own"} <= set(found)
    assert (found["both"].owner, found["both"].default) == ("Seq2SeqTrainingArguments", 2.0)
    assert found["optim"].default == "adamw"


def test_reads_templates(sources: Path) -> None:
    template = load_catalog(sources).templates["t"]
    assert template.needs == ("</s>", "<a>")
    assert template.frame == "<u><a></s>"


def test_a_changed_file_is_read_again(sources: Path) -> None:
    assert "data_args_x" in load_catalog(sources).parameters
    assert load_catalog(sources) is load_catalog(sources)
    found = write(
        sources, "llamafactory/hparams/data_args.py", "@dataclass\nclass DataArguments:\n    fresh: int = 1\n"
    )
    assert "fresh" in found.parameters
    assert "data_args_x" not in found.parameters


def test_an_editable_install_is_found(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    checkout = tmp_path_factory.mktemp("checkout")
    shutil.move(sources / "llamafactory", checkout / "llamafactory")
    with pytest.raises(InvalidRequestError, match="no llamafactory here"):
        load_catalog(sources)
    (sources / "__editable__.llamafactory.pth").write_text(f"{checkout}\n")
    assert "data_args_x" in load_catalog(sources).parameters


def test_a_missing_file_is_named(sources: Path) -> None:
    (sources / "llamafactory/hparams/model_args.py").unlink()
    with pytest.raises(InvalidRequestError, match=r"model_args\.py: missing"):
        load_catalog(sources)


def test_the_installed_release(catalog: Catalog) -> None:
    found = catalog.parameters
    if (catalog.versions["llamafactory"], catalog.versions["transformers"]) == ("0.9.5", "5.6.0"):
        assert len(found) == 350
        assert sum(p.settable for p in found.values()) == 346
        assert len(catalog.templates) == 121
    assert all(p.help for p in found.values())
    assert found["stage"].choices == ("pt", "sft", "rm", "ppo", "dpo", "kto")
    assert found["learning_rate"].default == 5e-5
    assert found["per_device_train_batch_size"].owner == "TrainingArguments"
    assert "cosine" in found["lr_scheduler_type"].choices
    assert found["template"].kinds == {"str", "none"}
