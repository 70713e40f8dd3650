"""Write random tiny models for tests: `python make_model.py OUT` makes OUT/chat, OUT/plain (no chat template), OUT/lora."""

import json
import sys
from pathlib import Path

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


if __name__ == "__main__":
    root = Path(sys.argv[1])
    make_model(root / "plain", chat=False, seed=2)
    lora = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM")
    get_peft_model(make_model(root / "chat", chat=True, seed=1), lora).save_pretrained(root / "lora")
