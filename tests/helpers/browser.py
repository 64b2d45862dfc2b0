"""HTML reports: their data, and the page in a headless Chromium."""

import json
import re
import shutil
import subprocess

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
browser = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian package chromium)")


def page_data(path):
    """The data of a report."""
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


def browse(path, fragment="", script=""):
    """The page's elements after it ran, and whatever it wrote on the console."""
    if script:
        text = path.read_text(encoding="utf-8")
        path = path.with_name("scripted.html")
        path.write_text(text.replace("</body>", f"<script>{script}</script></body>"), "utf-8")
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
        f"--user-data-dir={path.parent / 'profile'}", "--virtual-time-budget=5000", "--dump-dom",
        f"{path.as_uri()}{fragment}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]
