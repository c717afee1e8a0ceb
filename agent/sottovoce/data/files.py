"""Open data files, with a clear error message for each kind of failure."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from sottovoce.errors import DataError


@contextmanager
def open_for_reading(path: Path, remedy: str) -> Iterator[BinaryIO]:
    """Open a file for reading bytes, and decompress it if its name ends in `.gz`.

    Args:
        path: path of the file.
        remedy: sentence about how to obtain a good copy, for the error message.

    Yields:
        The stream; errors while reading from it within the `with` block are also converted.

    Raises:
        DataError: if the file is missing, unreadable, truncated, or not valid gzip.
    """
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
            yield cast(BinaryIO, stream)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist. Check the path in the data SPEC. {remedy}") from None
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise DataError(f"{path} is corrupt or truncated. {remedy}") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}. Check the path and its permissions.") from error
