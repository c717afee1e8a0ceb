"""Model files, mangled and bent: each gives a checked model or one clear error, and never anything else.

SOTTOVOCE_FUZZ_MODELS lengthens the loop and SOTTOVOCE_FUZZ_SEED repeats one; a failure names its run.
"""

import os
import random

import numpy as np
import pytest
from sottovoce.errors import ConfigError
from sottovoce_lab.models.build import graph_bytes as built
from sottovoce_lab.models.checks import forward_bytes, graph_bytes
from sottovoce_lab.models.declaration import parse_declaration
from sottovoce_lab.models.forward import read_forward
from sottovoce_lab.models.scan import scan

from tests.support.bent_models import alter_model
from tests.support.forward_models import cnn
from tests.support.mangling import mangle

RUNS = int(os.environ.get("SOTTOVOCE_FUZZ_MODELS", "400"))
SEED = int(os.environ.get("SOTTOVOCE_FUZZ_SEED", "1"))
DECLARATION = """
name = "small"
input = [1, 4, 4]
classes = 3
loss = "softmax"
layers = [{kind = "conv2d", filters = 2, kernel = 3}, {kind = "relu"}, {kind = "flatten"}, {kind = "dense", units = 3}]
"""


@pytest.mark.parametrize("kind", ["graph", "forward"])
def test_model_files(kind: str) -> None:
    graph, forward = built(parse_declaration(DECLARATION, "declaration")), cnn().SerializeToString()
    whole, refusals = (graph if kind == "graph" else forward), list[str]()
    for run in range(RUNS):
        rng = random.Random(f"{SEED}/{kind}/{run}")
        raw = _raw(rng, run, whole)
        try:
            scan(raw, "file")
            if kind == "graph":
                graph_bytes(raw, "file")
            else:
                found = read_forward(forward_bytes(raw, "file"), "file", "name")
                assert np.isfinite(found.parameters).all()
        except ConfigError as refusal:
            refusals.append(str(refusal))
        except Exception as error:
            error.add_note(f"SOTTOVOCE_FUZZ_SEED={SEED}, {kind}, run {run}: from {raw.hex()}")
            raise
    assert all(words.startswith("file: ") and len(words) < 1000 for words in refusals)
    assert RUNS // 4 < len(refusals) < RUNS - RUNS // 50, "what changes nothing of importance is read"


def _raw(rng: random.Random, run: int, whole: bytes) -> bytes:
    match run % 5:
        case 0:
            return mangle(rng, whole)
        case 1:
            return whole[: rng.randint(0, len(whole))] if run % 2 else rng.randbytes(rng.randint(0, 300))
        case _:
            return alter_model(rng, whole)
