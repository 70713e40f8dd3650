"""A data script: many concurrent requests, every third one streamed, with retries.

`job.py COUNT` writes the answers to `answers.json` in the working folder.
"""

import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor


def ask(number: int) -> str:
    body = {
        "model": "strong",
        "messages": [{"role": "user", "content": f"question {number}"}],
        "stream": number % 3 == 0,
    }
    if number % 2:
        body["temperature"] = 0
    headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    while True:
        try:
            request = urllib.request.Request(url, json.dumps(body).encode(), headers)
            with urllib.request.urlopen(request, timeout=60) as answer:
                text: str = answer.read().decode()
            if "[DONE]" in text or not body["stream"]:
                return text
        except urllib.error.HTTPError as e:
            if e.code not in (500, 502, 503):
                raise
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.05)


if __name__ == "__main__":
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(ask, range(int(sys.argv[1]))))
    with open("answers.json", "w") as f:
        json.dump(found, f)
