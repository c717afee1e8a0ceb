"""Broker passwords, each stored in a file that only its owner may access."""

import stat
from pathlib import Path

from sottovoce.errors import ConfigError


def read_password(key: str, file: Path) -> str:
    """Return the password in a file, without leading and trailing whitespace.

    Args:
        key: the configuration key that specifies the file.
        file: path of the file, which is encoded in UTF-8.

    Raises:
        ConfigError: if the file cannot be read, or other users may access it.
    """
    try:
        if file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ConfigError(f"{key}: {file} is open to other users; run chmod 600 on it")
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{key}: cannot read {file}; it must contain the password as UTF-8 text") from error
