"""Render each hostile template in a fork of its own, in the engine: `python reference_templates.py MODEL TEMPLATES.json`."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from pathlib import Path

import oc_template
from transformers import AutoTokenizer

oc_template.SECONDS = 0.5
CHAT = [{"role": "user", "content": "hello"}]


def outcome(template: str) -> str:
    tokenizer.chat_template = template
    try:
        return "text: " + oc_template.render(tokenizer, [CHAT])[0][:100]
    except Exception as e:  # noqa: BLE001 - whatever it is, it is what is looked at
        return f"{type(e).__name__}: {e}"[:200]


tokenizer = AutoTokenizer.from_pretrained(sys.argv[1], trust_remote_code=False)
for name, template in json.loads(Path(sys.argv[2]).read_text()).items():
    ours, theirs = os.pipe()
    if os.fork() == 0:
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
        os.write(theirs, outcome(template).encode())
        os._exit(0)
    os.close(theirs)
    said = os.read(ours, 1000).decode()
    _, status = os.wait()
    code = os.waitstatus_to_exitcode(status)
    sys.stdout.write(json.dumps({"name": name, "said": said or signal.Signals(-code).name}) + "\n")
    sys.stdout.flush()
