"""Characters that a terminal cannot show: not a defect."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.process


def test_an_ascii_terminal_gets_question_marks() -> None:
    """In this case, Python must write ASCII; tables are written without querying the stream."""
    words = "import sys; sys.argv = ['sottovoce', '--version']\nfrom sottovoce.cli.main import main\n"
    words += "try:\n    main()\nexcept SystemExit:\n    print('\\u03b5 = 2')"
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ran = subprocess.run([sys.executable, "-c", words], env=ascii_only, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.splitlines()[-1], ran.stderr) == (0, "? = 2", "")
