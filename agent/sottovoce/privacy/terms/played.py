"""Private halves of learners outside this package whose every file the neighbour suite has played."""

import sys
from hashlib import sha256
from pathlib import Path

LIST = Path(__file__).with_name("played.sha256")
"""Digests of files, as sha256sum writes them, by path below the folder of all packages; `make played` writes it."""


def is_played(module: str) -> bool:
    """Return whether an imported module, and every other file in its folder, are as the neighbour suite played them.

    A private half is a folder, because a changed program beside unchanged terms would break what the terms state.

    Args:
        module: the module's name, such as `sottovoce_papers.hegedus_2017.gradient_walk.private.terms`.
    """
    file, package = getattr(sys.modules.get(module), "__file__", None), module.rpartition(".")[0].replace(".", "/")
    if file is None:
        return False
    try:
        return digests(Path(file).parent, package) == _listed(package)
    except OSError:  # a file that cannot be read is not the one that was played
        return False


def digests(folder: Path, package: str) -> dict[str, str]:
    """Return the SHA-256 of each file in a folder, by the package's path and the file's name."""
    files = (file for file in folder.iterdir() if not file.is_dir())
    return {f"{package}/{file.name}": sha256(file.read_bytes()).hexdigest() for file in files}


def _listed(package: str) -> dict[str, str]:
    lines = (line.split() for line in LIST.read_text(encoding="utf-8").splitlines())
    listed = {name: digest for digest, name in lines if name.rpartition("/")[0] == package}
    if not listed:
        raise FileNotFoundError(package)
    return listed
