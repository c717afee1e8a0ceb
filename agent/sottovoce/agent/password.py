"""Passwords of brokers, each in a file that only its owner may read."""

import stat
from pathlib import Path

from sottovoce.errors import ConfigError


def read_password(key: str, file: Path) -> str:
    """Return the password in a file, without the white space around it.

    Args:
        key: the configuration key that names the file.
        file: path of the file, which is in UTF-8.

    Raises:
        ConfigError: if it cannot be read, or others may read it.
    """
    try:
        if file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ConfigError(f"{key}: {file}: others may read it; chmod 600 it")
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{key}: {file}: cannot be read; put the password there, in UTF-8") from error
