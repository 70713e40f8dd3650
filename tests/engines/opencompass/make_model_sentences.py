"""Inside the engine: what `bioprobench_gen_meaning` needs, small and random: `python make_model_sentences.py FOLDER`."""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, MPNetConfig, MPNetModel, PreTrainedTokenizerFast

WORDS = "add mix heat cool the of to and for at in with buffer tube sample pcr gel cup mug minutes ml spin wash"
LETTERS = [*"abcdefghijklmnopqrstuvwxyz0123456789.", *(f"##{sign}" for sign in "abcdefghijklmnopqrstuvwxyz0123456789")]
SIZES: dict[str, Any] = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
NOUN = '06 n 02 mug 0 cup 0 000 | with a handle; "he put the mug back"  \n'


def sentences(folder: Path, kind: Any, config: Any, special: list[str], wide: int) -> None:
    """A model in the format of sentence-transformers."""
    start, pad, end, unknown, mask = special
    vocabulary = {word: number for number, word in enumerate([*special, *WORDS.split(), *LETTERS])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=unknown))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    both = [(start, vocabulary[start]), (end, vocabulary[end])]
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{start} $A {end}", special_tokens=both)
    names = {"cls_token": start, "pad_token": pad, "sep_token": end, "unk_token": unknown, "mask_token": mask}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    torch.manual_seed(0)
    made = kind(config(vocab_size=len(vocabulary), hidden_size=wide, pad_token_id=vocabulary[pad], **SIZES))
    made.save_pretrained(folder)
    parts = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{name}"}
        for i, (path, name) in enumerate(parts.items())
    ]
    written = {
        "modules.json": modules,
        "sentence_bert_config.json": {"max_seq_length": 48, "do_lower_case": False},
        "1_Pooling/config.json": {"word_embedding_dimension": wide, "pooling_mode_mean_tokens": True},
    }
    for name, value in written.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(value))
    (folder / "2_Normalize").mkdir()


def wordnet(folder: Path) -> None:
    """A WordNet of one meaning with two words."""
    folder.mkdir(parents=True)
    for kind in ("noun", "verb", "adj", "adv"):
        for name in (f"index.{kind}", f"data.{kind}", f"{kind}.exc"):
            (folder / name).write_text("")
    for name in ("cntlist.rev", "index.sense"):
        (folder / name).write_text("")
    (folder / "lexnames").write_text("".join(f"{number:02}\tnoun.{number}\t1\n" for number in range(45)))
    (folder / "index.noun").write_text("".join(f"{word} n 1 0 1 0 00000000  \n" for word in ("cup", "mug")))
    (folder / "data.noun").write_text(f"00000000 {NOUN}")


if __name__ == "__main__":
    place = Path(sys.argv[1]) / "bioprobench"
    wordnet(place / "nltk_data" / "corpora" / "wordnet")
    kinds = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"]
    sentences(place / "all-MiniLM-L6-v2", BertModel, BertConfig, kinds, 16)
    sentences(place / "all-mpnet-base-v2", MPNetModel, MPNetConfig, ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"], 24)
