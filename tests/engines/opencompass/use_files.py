"""Inside the engine: what a scorer says of each folder with its files: `python use_files.py JUDGING SCORER FOLDER...`; JSON."""

import importlib.util
import json
import sys

spec = importlib.util.spec_from_file_location("judging", sys.argv[1])
assert spec and spec.loader
judging = importlib.util.module_from_spec(spec)
spec.loader.exec_module(judging)
said = []
for folder in sys.argv[3:]:
    try:
        judging.judge_of("", "", sys.argv[2], folder)
        said.append("")
    except (ValueError, OSError) as e:
        said.append(str(e))
json.dump(said, sys.stdout)
