"""Run by `test_browser.py` where Playwright is: looks at pages as a person does, and prints what it saw as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright  # type: ignore[import-not-found]

BASE, LINK, EVENTS, OUT, PAGES = sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]), sys.argv[5:]
FRESH = '{"kind":"agent_answered","at":"2026-01-01T00:00:00Z","experiment":1,"agent":"critic","says":"fresh words"}\n'
EVIL = f'<form id="f" method="post" action="{BASE}/runs/open/say"><input name="text" value="finish"></form>'


def look(page: Page, width: int, said: list[str]) -> dict[str, int]:
    """Each page in a window of that width; by how many pixels it is too wide."""
    page.on("console", lambda message: said.append(f"{page.url}: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"{page.url}: {error}"))
    page.on("request", lambda asked: None if asked.url.startswith(BASE) else said.append(f"asks {asked.url}"))
    page.goto(LINK)
    wide = {}
    for number, path in enumerate(PAGES):
        page.goto(BASE + path)
        page.screenshot(path=OUT / f"{number}-{width}.png", full_page=True)
        wide[path] = page.evaluate("document.documentElement.scrollWidth") - width
    return wide


def live(page: Page) -> dict[str, Any]:
    """An event reaches the page; the keyboard reaches the command's field."""
    page.goto(f"{BASE}/runs/open")
    with EVENTS.open("a") as f:
        f.write(FRESH)
    page.wait_for_selector("text=fresh words", timeout=5000)
    reached = []
    for _ in range(6):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.name || document.activeElement.textContent"))
    return {"reached": reached}


def send(page: Page) -> str:
    """The page's own form sends a command; what is said to it."""
    page.goto(f"{BASE}/runs/open")
    page.fill("input[name=text]", "limit num_train_epochs<=7")
    page.click("button:has-text('Send')")
    return str(page.inner_text("main"))


def attack(page: Page) -> int:
    """A page of another origin sends a command with the browser that is let in; the status that it gets."""
    page.route("https://evil.example/", lambda route: route.fulfill(body=EVIL, content_type="text/html"))
    page.goto("https://evil.example/")
    with page.expect_navigation() as gone:
        page.evaluate("document.getElementById('f').submit()")
    return int(gone.value.status)


with sync_playwright() as p:
    browser = p.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
    said: list[str] = []
    seen: dict[str, Any] = {}
    for width, scheme in ((1200, "light"), (360, "dark")):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        seen[scheme] = look(page := context.new_page(), width, said)
    seen |= live(page) | {"sent": send(page), "attack": attack(context.new_page()), "said": said}
    browser.close()
sys.stdout.write(json.dumps(seen))
