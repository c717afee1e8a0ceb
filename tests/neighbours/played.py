"""The list of private halves of papers that the suite has played; `python -m tests.neighbours.played` writes it."""

from pathlib import Path

import sottovoce_papers
from sottovoce.privacy.terms.played import LIST, digests

_PAPERS = Path(sottovoce_papers.__file__).parent


def played() -> str:
    """Return the digest of every file of every private half, as sha256sum writes them."""
    folders = sorted(folder for folder in _PAPERS.glob("**/private") if folder.is_dir())
    found = [digests(folder, folder.relative_to(_PAPERS.parent).as_posix()) for folder in folders]
    return "".join(f"{digest}  {name}\n" for part in found for name, digest in sorted(part.items()))


if __name__ == "__main__":
    LIST.write_text(played(), encoding="utf-8")
