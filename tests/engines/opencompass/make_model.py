"""Write random tiny models for tests: `python make_model.py OUT`.

OUT/chat and OUT/other of one shape, OUT/plain without a chat template; adapters of chat: OUT/lora, OUT/ranks (DoRA,
several ranks), OUT/saved (with an embedding of its own), OUT/biased (trains the base's biases).
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"]
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def make_tokenizer(out: Path, chat: bool) -> PreTrainedTokenizerFast:
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    bpe.train_from_iterator(["What is the number?"], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|pad|>", unk_token=None)
    fast.chat_template = CHATML if chat else None
    fast.save_pretrained(out)
    config = json.loads((out / "tokenizer_config.json").read_text())
    config |= {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": ["input_ids", "attention_mask"]}
    (out / "tokenizer_config.json").write_text(json.dumps(config))
    return fast


def make_model(out: Path, chat: bool, seed: int) -> Qwen2ForCausalLM:
    fast = make_tokenizer(out, chat)
    torch.manual_seed(seed)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    ends = {"bos_token_id": None, "eos_token_id": fast.eos_token_id, "pad_token_id": fast.pad_token_id}
    # a large range, so that answers differ from item to item
    more = {"num_key_value_heads": 2, "max_position_embeddings": 192, "initializer_range": 0.4}
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=len(fast), tie_word_embeddings=True, **shape, **ends, **more))
    model.save_pretrained(out)
    return model


def make_adapter(out: Path, seed: int, **more: Any) -> None:
    base = Qwen2ForCausalLM.from_pretrained(out.parent / "chat")
    torch.manual_seed(seed)
    lora = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM", **more)
    adapted = get_peft_model(base, lora)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if parameter.requires_grad and "lora_" not in name:
                parameter.add_(0.05 * torch.randn_like(parameter))
    adapted.save_pretrained(out)


if __name__ == "__main__":
    root = Path(sys.argv[1])
    make_model(root / "plain", chat=False, seed=2)
    make_model(root / "chat", chat=True, seed=1)
    make_model(root / "other", chat=True, seed=3)
    make_adapter(root / "lora", seed=4)
    make_adapter(root / "ranks", seed=5, use_dora=True, rank_pattern={"q_proj": 12}, alpha_pattern={"q_proj": 3})
    make_adapter(root / "saved", seed=6, modules_to_save=["embed_tokens"])
    make_adapter(root / "biased", seed=7, bias="all")
