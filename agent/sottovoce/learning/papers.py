"""Learners from papers, which our own distribution `sottovoce-papers` provides through entry points.

The distribution has the same version as this package. If both are installed, its learners are treated like the ones in
this package.
"""

import sys
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from sottovoce.plugins import KINDS, LEARNER
from sottovoce.plugins.workstation import PAPERS

DISTRIBUTION = PAPERS.replace("_", "-")

LEARNERS = frozenset(
    (
        *("adad2p", "constd2p", "dp-cga", "dp-dpsgd", "dp-net-fleet", "golf", "gradient-walk", "muffliato", "pdsl"),
        *("with-replacement", "without-replacement"),
    )
)
"""Names of the distribution's learners, which are known where it is not installed, too."""


@lru_cache(maxsize=1)
def installed_learners() -> dict[str, str]:
    """Return each learner of the installed distribution, by name, as `module:attribute`; none if its version differs.

    This reads the entry points' file itself: importlib.metadata would cost every device 2 MiB of memory.
    """
    import sottovoce

    folder = f"{PAPERS}-{sottovoce.__version__}.dist-info"
    files = [file for path in sys.path if (file := Path(path or ".", folder, "entry_points.txt")).is_file()]
    if not files or find_spec(PAPERS) is None:
        return {}
    _, _, section = files[0].read_text(encoding="utf-8").partition(f"[{KINDS[LEARNER]}]\n")
    lines = section.partition("\n[")[0].splitlines()
    return dict(line.split(" = ", 1) for line in lines if " = " in line)


def missing_package_hint(name: str) -> str | None:
    """Return what to install if a name is that of one of its learners, but it is not installed; otherwise None."""
    import sottovoce

    if name not in LEARNERS or name in installed_learners():
        return None
    version = sottovoce.__version__
    return (
        f"it is part of the package {DISTRIBUTION}, which is not installed here in version {version}; "
        f"run pip install '{DISTRIBUTION}=={version}'"
    )
