"""Build the site in strict mode in a temporary folder, and check its links, page reachability and search results."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOUGHT = ("local differential privacy", "expired certificate", "threat model")


def main() -> int:
    """Report faults; return 0 if there are none."""
    with tempfile.TemporaryDirectory() as directory:
        site = Path(directory)
        command = [Path(sys.executable).with_name("mkdocs"), "build", "--quiet", "--strict", "--site-dir", site]
        built = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        if built.returncode != 0:
            print(built.stdout + built.stderr)
            return 1
        wrong = [*_out_of_reach(site), *_not_found(site), *_ranked_too_high(site), *_from_elsewhere(site)]
    print("\n".join(wrong) or f"the site builds; every page is in reach, and a search finds {', '.join(SOUGHT)}")
    return bool(wrong)


def _out_of_reach(site: Path) -> list[str]:
    """Return the pages that cannot be reached from the front page by following links."""
    seen, left = set(), [site / "index.html"]
    while left:
        page = left.pop()
        if page in seen or not page.exists():
            continue
        seen.add(page)
        links = re.findall(r'href="([^"#:?]+\.html)', page.read_text(encoding="utf-8"))
        left += [(page.parent / link).resolve() for link in links]
    every = {path for path in site.rglob("*.html") if path.name != "404.html"}
    return [f"{path.relative_to(site)}: no link leads there" for path in sorted(every - seen)]


def _not_found(site: Path) -> list[str]:
    """Phrases for which no page in the search index holds all words."""
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    pages: dict[str, str] = {}
    for part in index["docs"]:
        page = part["location"].partition("#")[0]
        pages[page] = f"{pages.get(page, '')} {part['title']} {part['text']}".lower()
    return [
        f"a search for {phrase!r} finds no page"
        for phrase in SOUGHT
        if not any(all(word in text for word in phrase.split()) for text in pages.values())
    ]


def _ranked_too_high(site: Path) -> list[str]:
    """Records of decisions and results that count as much in a search as the pages that answer questions."""
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    records = [part for part in index["docs"] if part["location"].startswith(("decisions/", "results/"))]
    counted = {part["location"].partition("#")[0] for part in records if part.get("boost", 1.0) > 0.1}
    return [f"{page}: counts in a search as a page that answers a question" for page in sorted(counted)]


def _from_elsewhere(site: Path) -> list[str]:
    """Scripts, styles and pictures that a browser without a network would miss."""
    loaded = re.compile(r'<(?:script|img|link)[^>]+(?:src|href)="(https?://[^"]+)"')
    found = {(page, url) for page in site.rglob("*.html") for url in loaded.findall(page.read_text(encoding="utf-8"))}
    return [f"{page.relative_to(site)}: loads {url}" for page, url in sorted(found)]


if __name__ == "__main__":
    sys.exit(main())
