"""The documents build as a site, every link of which resolves."""

import importlib.util
import re
import subprocess
import sys

import pytest

from helpers.pages import ROOT

SPEC = importlib.util.spec_from_file_location("site_links", ROOT / "docs" / "site_links.py")


def test_the_site_builds_strictly(tmp_path):
    pytest.importorskip("material", reason="mkdocs-material is in the extra 'docs'")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}
    assert pages <= {path.parent.name for path in tmp_path.glob("*/index.html")}
    reasons = (tmp_path / "reasons" / "index.html").read_text(encoding="utf-8")
    assert 'href="https://github.com/mlirfuse/mlirfuse/blob/main/examples/reasons/' in reasons
    assert not list(tmp_path.rglob("*.py"))
    assert "fonts.googleapis.com" not in reasons


def test_every_page_is_in_the_navigation():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"^ +- ([\w-]+\.md)$", text.partition("\nnav:\n")[2], re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))


def test_links_to_other_files_go_to_the_repository():
    site_links = importlib.util.module_from_spec(SPEC)
    SPEC.loader.exec_module(site_links)
    text = "[a](../CHANGELOG.md) [b](../examples/custom_pass) [c](index.md#here) [d](#e)"
    assert site_links.on_page_markdown(text) == (
        f"[a]({site_links.REPOSITORY}/blob/main/CHANGELOG.md)"
        f" [b]({site_links.REPOSITORY}/tree/main/examples/custom_pass) [c](index.md#here) [d](#e)"
    )
    with pytest.raises(FileNotFoundError):
        site_links.on_page_markdown("[a](../absent.md)")
