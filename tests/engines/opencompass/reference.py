"""Answer the items of a job with plain `transformers`, one by one: `python reference.py JOB.json ANSWERS.json`."""

import json
import sys
from pathlib import Path

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

job = json.loads(Path(sys.argv[1]).read_text())
(given_set,) = job["sets"]
items = [json.loads(line) for line in Path(given_set["items"]).read_text().splitlines()]
answers: dict[str, dict[str, str]] = {}
for given in job["models"]:
    tokenizer = AutoTokenizer.from_pretrained(given["tokenizer"])
    model = AutoModelForCausalLM.from_pretrained(given["path"], dtype=torch.float32)
    if given["adapter"]:
        model = PeftModel.from_pretrained(model, given["adapter"])
    found = answers.setdefault(given["name"], {})
    for item in items:
        text = item["prompt"]
        if tokenizer.chat_template:
            chat = [{"role": "user", "content": text}]
            text = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        out = model.eval().generate(input_ids=ids, max_new_tokens=given_set["max_new_tokens"], do_sample=False)
        found[item["id"]] = tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True)
Path(sys.argv[2]).write_text(json.dumps(answers))
