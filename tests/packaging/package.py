"""The Debian packages that `make deb` builds: for which release, and in which order of versions."""

import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
RELEASES = {"bookworm": "3.11", "trixie": "3.13"}  # Python of each, as deploy/debian/build has it; oldest first


def build(release: str, arch: str = "") -> Path:
    """Build the package for a release and an architecture, by default this machine's; its path.

    Raises:
        SystemExit: it cannot be built; the builder has said why.
    """
    environment = {**os.environ, "RELEASE": release, "ARCH": arch}
    done = subprocess.run(
        [str(ROOT / "deploy/debian/build")], env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.returncode)
    return ROOT / done.stdout.strip()


def version(package: Path) -> str:
    """The version in its control file."""
    field = ["dpkg-deb", "--field", str(package), "Version"]
    return subprocess.run(field, capture_output=True, text=True, check=True).stdout.strip()


def newer(version: str, than: str) -> bool:
    """Would dpkg upgrade to `version`?"""
    return subprocess.run(["dpkg", "--compare-versions", version, "gt", than], check=False).returncode == 0


def higher(package: Path, to: Path) -> Path:
    """The same package with a higher version."""
    tree = to / "tree"
    subprocess.run(["dpkg-deb", "-R", str(package), str(tree)], check=True)
    control = tree / "DEBIAN" / "control"
    control.write_text(re.sub(r"^(Version: .*)$", r"\1+upgraded", control.read_text(), flags=re.MULTILINE))
    made = to / package.name
    pack = ["dpkg-deb", "--root-owner-group", "-Znone", "-b", str(tree), str(made)]
    subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(tree)
    return made
