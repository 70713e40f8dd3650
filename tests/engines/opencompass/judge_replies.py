"""Judge replies inside the engine: `python judge_replies.py JUDGING SCORER [FILES] < PAIRS.json`; verdicts, summary come out."""

import importlib.util
import json
import sys

spec = importlib.util.spec_from_file_location("judging", sys.argv[1])
assert spec and spec.loader
judging = importlib.util.module_from_spec(spec)
spec.loader.exec_module(judging)
judge = judging.judge_of("", "", *sys.argv[2:])
verdicts = [judging.judged(judge, gold, reply) for gold, reply in json.load(sys.stdin)]
json.dump({"verdicts": verdicts, "summary": judging.summary(sys.argv[2], verdicts)}, sys.stdout)
