"""The files of a model, none of which could be loaded: only their names and kinds matter."""


def files() -> dict[str, bytes]:
    """Weights twice, code, and the small files around them."""
    return {
        "config.json": b'{"model_type": "qwen2"}\n',
        "tokenizer_config.json": b"{}\n",
        "model.safetensors": bytes(range(256)) * 4000,
        "pytorch_model.bin": b"pickle" * 1000,
        "modeling_small.py": b"raise SystemExit\n",
    }
