"""Make the tiny base model: a byte-level tokenizer and a small Qwen2, trained on a corpus of JSON Lines.

Runs in the engine's environment: `python pretrain.py --corpus c.jsonl --tokenizer-corpus t.jsonl --out DIR --seed 1`.
Each row holds `told` (read, not learned) and `text` (learned). Progress goes to stdout as JSON lines.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

END = "<|endoftext|>"
TURN, TURN_END, PAD = "<|im_start|>", "<|im_end|>", "<|pad|>"
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
PIECES = r"\p{N}| ?\p{L}+| ?[^\s\p{L}\p{N}]|\s+(?!\S)|\s+"
MAX_LENGTH = 512
IGNORED = -100
TOKENS, WINDOW = 2048, 2048
MUON_RATE, ADAM_RATE = 0.02, 4e-3
CARD = """\
# tiny

A Qwen2 of {parameters:,} parameters (3 layers, hidden size 128, {vocabulary} tokens) for trying things out on two CPU cores. It was
trained from nothing ({steps} steps, seed {seed}) on made-up little stories with sums, whole numbers up to 60. It cannot chat
and follows no instructions.
Tokenizer: byte-level BPE with every digit apart. Chat template: ChatML, without a system turn.
"""

Row = tuple[list[int], int]


def make_tokenizer(rows: list[dict[str, str]], out: Path) -> PreTrainedTokenizerFast:
    """Byte-level BPE with every digit apart, saved so that transformers 4.57 and 5.x both load it."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=640, special_tokens=[END, TURN, TURN_END, PAD], initial_alphabet=alphabet, show_progress=False
    )
    bpe.train_from_iterator((row["told"] + row["text"] for row in rows), trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token=TURN_END, pad_token=PAD, unk_token=None, model_max_length=MAX_LENGTH
    )
    tokenizer.chat_template = CHATML
    tokenizer.save_pretrained(out)
    make_portable(out / "tokenizer_config.json")
    return tokenizer


def make_portable(path: Path) -> None:
    """Replace what only transformers 5 understands in a tokenizer's configuration."""
    config = json.loads(path.read_text())
    config.pop("extra_special_tokens", None)
    config |= {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "additional_special_tokens": [TURN, TURN_END],
        "model_input_names": ["input_ids", "attention_mask"],
        "chat_template": CHATML,
    }
    path.write_text(json.dumps(config, indent=1))


def encode(rows: list[dict[str, str]], tokenizer: PreTrainedTokenizerFast) -> list[Row]:
    """Token ids of each row, and how many of them are only told."""
    backend = tokenizer.backend_tokenizer
    told = backend.encode_batch([row["told"] for row in rows], add_special_tokens=False)
    text = backend.encode_batch([row["text"] for row in rows], add_special_tokens=False)
    end = tokenizer.convert_tokens_to_ids(END)
    return [([*a.ids, *b.ids, end], len(a.ids)) for a, b in zip(told, text, strict=True)]


def batches(rows: list[Row], rng: Random) -> Iterator[list[Row]]:
    """Whole rows of like length, at most TOKENS with padding; the order of the rows is kept from window to window."""
    for i in range(0, len(rows), WINDOW):
        made: list[list[Row]] = [[]]
        for row in sorted(rows[i : i + WINDOW], key=lambda r: len(r[0])):
            if (len(made[-1]) + 1) * len(row[0]) > TOKENS:
                made.append([])
            made[-1].append(row)
        rng.shuffle(made)
        yield from made


def tensors(batch: list[Row], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and labels, padded on the right (causal attention never looks there)."""
    longest = max(len(ids) for ids, _ in batch)
    ids = [row + [pad] * (longest - len(row)) for row, _ in batch]
    labels = [[IGNORED] * told + row[told:] + [IGNORED] * (longest - len(row)) for row, told in batch]
    return torch.tensor(ids), torch.tensor(labels)


def orthogonal(matrices: torch.Tensor) -> torch.Tensor:
    """The nearest orthogonal matrices, roughly: five Newton-Schulz rounds (Jordan et al. 2024, Muon)."""
    tall = matrices.size(-2) > matrices.size(-1)
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        square = x @ x.mT
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x.mT if tall else x


class Muon:
    """Momentum made orthogonal; matrices of one shape are handled together."""

    def __init__(self, parameters: list[torch.nn.Parameter], momentum: float = 0.95) -> None:
        shapes = dict.fromkeys(p.shape for p in parameters)
        self.groups = [[p for p in parameters if p.shape == shape] for shape in shapes]
        self.buffers = [torch.zeros(len(group), *group[0].shape) for group in self.groups]
        self.momentum = momentum

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Move every matrix once."""
        for group, buffer in zip(self.groups, self.buffers, strict=True):
            gradient = torch.stack([p.grad for p in group if p.grad is not None])
            buffer.lerp_(gradient, 1 - self.momentum)
            update = orthogonal(gradient.lerp(buffer, self.momentum))
            scale = rate * max(1.0, update.size(-2) / update.size(-1)) ** 0.5
            for parameter, change in zip(group, update, strict=True):
                parameter.sub_(change, alpha=scale)


def make_model(tokenizer: PreTrainedTokenizerFast) -> Qwen2ForCausalLM:
    """An untrained Qwen2 of 0.66 million parameters."""
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=128,
            intermediate_size=384,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=MAX_LENGTH,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    ).train()


def make_optimizers(model: Qwen2ForCausalLM) -> tuple[Muon, torch.optim.AdamW]:
    """Muon for the matrices of the layers, AdamW for embeddings, norms and biases."""
    named = list(model.named_parameters())
    matrices = [p for name, p in named if p.ndim == 2 and "embed" not in name]
    others = [p for name, p in named if p.ndim != 2 or "embed" in name]
    return Muon(matrices), torch.optim.AdamW(others, betas=(0.9, 0.95), weight_decay=0.0)


def train(model: Qwen2ForCausalLM, rows: list[Row], steps: int, seed: int) -> None:
    """Warm-up, plateau, linear decay over the second half."""
    muon, adam = make_optimizers(model)
    rng, started = Random(seed), time.monotonic()
    endless = (batch for _ in iter(int, 1) for batch in batches(rows, rng))
    for step, batch in enumerate(islice(endless, steps), 1):
        rate = min(1.0, step / 20, 2.0 * (1 - (step - 1) / steps))
        ids, labels = tensors(batch, model.config.pad_token_id)
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        muon.step(MUON_RATE * rate)
        adam.param_groups[0]["lr"] = ADAM_RATE * rate
        adam.step()
        model.zero_grad(set_to_none=True)
        if step % 10 == 0 or step == steps:
            seconds = round(time.monotonic() - started, 1)
            say(step=step, total=steps, loss=round(loss.item(), 4), seconds=seconds)


def say(**facts: object) -> None:
    """One line of progress."""
    print(json.dumps(facts), flush=True)


def read(path: Path) -> list[dict[str, str]]:
    """Rows of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--tokenizer-corpus", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=1050)
    return parser.parse_args()


def main() -> None:
    """Tokenizer, rows, model, training, files."""
    args = arguments()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer(read(args.tokenizer_corpus), args.out)
    rows = encode(read(args.corpus), tokenizer)
    model = make_model(tokenizer)
    train(model, rows, args.steps, args.seed)
    model.save_pretrained(args.out)
    facts = {"parameters": model.num_parameters(), "vocabulary": len(tokenizer), "steps": args.steps, "seed": args.seed}
    (args.out / "README.md").write_text(CARD.format(**facts), encoding="utf-8")
    for file in args.out.iterdir():
        file.chmod(0o644)


if __name__ == "__main__":
    main()
