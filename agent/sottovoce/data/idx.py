"""`idx:DIR`: the four IDX files of MNIST and its successors (http://yann.lecun.com/exdb/mnist)."""

import math
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sottovoce.data.bounds import uniform_bounds
from sottovoce.data.dataset import Table
from sottovoce.data.files import open_for_reading
from sottovoce.errors import DataError

_UINT8 = 0x08
_REMEDY = "Download the IDX file again."


def load_idx(directory: Path, options: Mapping[str, str]) -> Table:
    """Load the training images and labels in a directory, and its `t10k` files as the official test split.

    Args:
        directory: directory that contains `train-images-idx3-ubyte` and `train-labels-idx1-ubyte`, and optionally the
            same two files with `t10k`; `.idx3-ubyte` is also accepted, and each file with or without `.gz`.
        options: `classes`, the number of classes, by default 10 as in MNIST and its successors; the format itself
            does not declare it.

    Returns:
        One row of float64 pixels per image, with declared bounds of 0 to 255.

    Raises:
        DataError: if a file is missing, truncated or corrupt, or does not contain unsigned bytes in the declared shape.
    """
    train = _load_split(directory, "train")
    if train is None:
        raise DataError(
            f"{directory} does not contain train-images-idx3-ubyte[.gz]. Specify the directory that contains this file."
        )
    features = train[0].shape[1]
    classes = options.get("classes", "10")
    if not re.fullmatch(r"[1-9]\d{0,4}", classes) or int(classes) < 2:
        raise DataError(f"{directory}: classes={classes} must be an integer of at least 2.")
    return Table(
        name=f"idx:{directory.name}",
        rows=train,
        classes=int(classes),
        test=_load_split(directory, "t10k"),
        bounds=uniform_bounds(0.0, 255.0, features, str(directory)),
        origin=str(directory),
    )


def _load_split(directory: Path, part: str) -> tuple[NDArray[np.float64], NDArray[np.uint8]] | None:
    image_file, label_file = _find(directory, f"{part}-images", 3), _find(directory, f"{part}-labels", 1)
    if image_file is None and label_file is None:
        return None
    if image_file is None or label_file is None:
        absent = f"{part}-images-idx3-ubyte" if image_file is None else f"{part}-labels-idx1-ubyte"
        raise DataError(
            f"{directory} does not contain {absent}[.gz]. Images and labels come in pairs: add the missing file."
        )
    images, labels = _read_array(image_file, 3), _read_array(label_file, 1)
    return images.reshape(len(images), math.prod(images.shape[1:])).astype(np.float64), labels


def _find(directory: Path, stem: str, dimensions: int) -> Path | None:
    names = (f"{stem}{separator}idx{dimensions}-ubyte{suffix}" for separator in "-." for suffix in ("", ".gz"))
    return next((directory / name for name in names if (directory / name).is_file()), None)


def _read_array(path: Path, dimensions: int) -> NDArray[np.uint8]:
    with open_for_reading(path, _REMEDY) as stream:
        content = stream.read()
    start = 4 + 4 * dimensions
    if len(content) < start:
        raise DataError(f"{path} is truncated within its header. {_REMEDY}")
    if content[:2] != b"\0\0":
        raise DataError(f"{path} is not an IDX file. {_REMEDY}")
    if content[2] != _UINT8:
        raise DataError(f"{path} does not contain unsigned bytes. Convert it to IDX type 0x08.")
    if content[3] != dimensions:
        raise DataError(f"{path} has {content[3]} dimensions instead of {dimensions}. {_REMEDY}")
    shape = tuple(int.from_bytes(content[offset : offset + 4], "big") for offset in range(4, start, 4))
    if len(content) - start != math.prod(shape):
        raise DataError(
            f"{path} contains {len(content) - start} bytes, but its header declares {math.prod(shape)}. {_REMEDY}"
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)
