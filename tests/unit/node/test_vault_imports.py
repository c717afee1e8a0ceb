"""Imports of the vault process: no learner and no network, whatever is requested."""

import subprocess
import sys

import pytest
from sottovoce.learning.registry import ALGORITHMS

pytestmark = pytest.mark.process

_MADE = """
import math, sys
from sottovoce.algorithms.assembly import build_family
from sottovoce.config import config_from_tables
name, epsilon = sys.argv[1], float(sys.argv[2])
settings = {
    "agent": {"state": "."},
    "data": {"source": "digits", "features": 64, "classes": 10, "expected_records": 180.0},
    "learner": {"name": name},
    "privacy": {"epsilon": epsilon},
    "membership": {"sampling": "static"},
}
build_family(config_from_tables(settings, "test"))
import sottovoce.node.vault_process
print(*sys.modules)
"""
_NOT = (
    "sottovoce.learning.learners",
    "sottovoce.net.transports",
    "sottovoce.net.wire",
    "sottovoce_bootstrap",
    "grpc",
    "aiomqtt",
    "google",
)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_vault_loads_only_the_private_half(name: str) -> None:
    epsilon = "inf" if ALGORITHMS[name].noiseless else "2"
    ran = subprocess.run([sys.executable, "-c", _MADE, name, epsilon], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    modules = ran.stdout.split()
    assert "sottovoce.privacy.terms.construction" in modules, "a vault answered"
    assert not [module for module in modules if module.startswith(_NOT) or ".public" in module]
