"""Transport factory: checks of the files that a device's transports need."""

from pathlib import Path

import pytest
from sottovoce.config import MqttSection
from sottovoce.errors import ConfigError
from sottovoce.node.network import _make_broker


def test_a_missing_or_exposed_password_file_is_named_by_its_key(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    section = MqttSection(url="mqtt://127.0.0.1", username="me", password_file=secret)
    with pytest.raises(ConfigError, match=r"transport\.mqtt\.password_file.*read"):
        _make_broker(section, tmp_path, 1.0)
    secret.write_text("hush\n")
    secret.chmod(0o644)
    with pytest.raises(ConfigError, match=r"transport\.mqtt\.password_file.*chmod 600"):
        _make_broker(section, tmp_path, 1.0)
    secret.chmod(0o600)
    assert _make_broker(section, tmp_path, 1.0).password == "hush"
