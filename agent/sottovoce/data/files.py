"""Open data files, raising a clear error for each way a read can fail."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from sottovoce.errors import DataError


@contextmanager
def open_for_reading(path: Path, remedy: str) -> Iterator[BinaryIO]:
    """Open a file for reading bytes, decompressing it when its name ends in `.gz`.

    Args:
        path: the file.
        remedy: a sentence on how to get a good copy, for the error.

    Yields:
        the stream; failures to read from it inside the `with` block are translated too.

    Raises:
        DataError: if the file is missing, unreadable, truncated, or not valid gzip.
    """
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
            yield cast(BinaryIO, stream)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist. Check the path in the data SPEC. {remedy}") from None
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise DataError(f"{path} is damaged or cut short. {remedy}") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}. Check the path and its permissions.") from error
