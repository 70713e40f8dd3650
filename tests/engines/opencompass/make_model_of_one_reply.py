"""Write a tiny model that replies with one text to everything: `python make_model_of_one_reply.py OUT REPLY.txt`.

The reply is one token of its vocabulary; layers add nothing, and the head says of each token which one comes next.
"""

import sys
from pathlib import Path

import torch
from make_model import make_tokenizer
from transformers import AddedToken, Qwen2Config, Qwen2ForCausalLM


def make_parrot(out: Path, text: str) -> None:
    fast = make_tokenizer(out, chat=True)
    fast.add_tokens([AddedToken(text, normalized=False, special=False)])
    fast.save_pretrained(out)
    size, reply, end = len(fast), fast.convert_tokens_to_ids(text), fast.eos_token_id
    shape = {"hidden_size": size + size % 2, "intermediate_size": 2, "num_hidden_layers": 1, "num_attention_heads": 1}
    ends = {"bos_token_id": None, "eos_token_id": end, "pad_token_id": fast.pad_token_id}
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=size,
            num_key_value_heads=1,
            max_position_embeddings=192,
            tie_word_embeddings=False,
            **shape,
            **ends,
        )
    )
    with torch.no_grad():
        layer = model.model.layers[0]
        for weight in (layer.self_attn.o_proj.weight, layer.mlp.down_proj.weight, model.lm_head.weight):
            weight.zero_()
        model.model.embed_tokens.weight.copy_(torch.eye(size, shape["hidden_size"]))
        model.lm_head.weight[reply] = 1
        model.lm_head.weight[end, reply] = 2
    model.save_pretrained(out)


if __name__ == "__main__":
    make_parrot(Path(sys.argv[1]), Path(sys.argv[2]).read_text())
