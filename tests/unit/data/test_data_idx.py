"""`idx:DIR`: it reads the MNIST layout, and refuses an incomplete file."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.data import load
from sottovoce.errors import DataError

MNIST = Path(__file__).parents[4] / "shared" / "data" / "mnist"
IMAGES = np.arange(3 * 2 * 4, dtype=np.uint8).reshape(3, 2, 4)
LABELS = np.array([2, 0, 1], dtype=np.uint8)


def encode_idx(array: NDArray[Any]) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + b"".join(side.to_bytes(4, "big") for side in array.shape)
    return header + array.tobytes()


def write(directory: Path, part: str = "train", separator: str = "-", suffix: str = "") -> tuple[Path, Path]:
    paths = (
        directory / f"{part}-images{separator}idx3-ubyte{suffix}",
        directory / f"{part}-labels{separator}idx1-ubyte{suffix}",
    )
    for path, array in zip(paths, (IMAGES, LABELS), strict=True):
        path.write_bytes(gzip.compress(encode_idx(array)) if suffix else encode_idx(array))
    return paths


@pytest.mark.parametrize("separator", ["-", "."])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_every_file_name_variant_is_read(tmp_path: Path, separator: str, suffix: str) -> None:
    write(tmp_path, separator=separator, suffix=suffix)
    data = load(f"idx:{tmp_path}")
    assert data.records.features.tolist() == IMAGES.reshape(3, 8).tolist()
    assert data.records.features.dtype == np.float64
    assert data.records.labels.tolist() == [2, 0, 1]
    assert data.classes == 10  # the format declares no number; all successors of MNIST have ten
    assert load(f"idx:{tmp_path}#classes=3").classes == 3
    assert data.bounds is not None
    assert [side.tolist() for side in data.bounds] == [[0.0] * 8, [255.0] * 8]
    assert data.test is None


def test_t10k_is_the_test_split(tmp_path: Path) -> None:
    write(tmp_path)
    write(tmp_path, "t10k")
    test = load(f"idx:{tmp_path}").test
    assert test is not None
    assert test.labels.tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    "content, problem",
    [
        (encode_idx(IMAGES)[:-1], r"23 bytes.*\b24\b"),
        (encode_idx(IMAGES) + b"\0", r"25 bytes.*\b24\b"),
        (encode_idx(IMAGES)[:9], "truncated"),
        (b"", "truncated"),
        (b"\x93NUMPY" + encode_idx(IMAGES), "IDX"),
        (b"\0\0\x0d" + encode_idx(IMAGES)[3:], "unsigned"),
        (encode_idx(IMAGES.reshape(6, 4)), r"2 dimensions.*\b3\b"),
        (encode_idx(IMAGES[:2]), "2 rows.*3 labels"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "header"),
    ],
)
def test_an_invalid_image_file_is_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    write(tmp_path)[0].write_bytes(content)
    with pytest.raises(DataError, match=problem) as exc_info:
        load(f"idx:{tmp_path}")
    assert str(tmp_path) in str(exc_info.value)


def test_corrupt_gzip_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, suffix=".gz")[1]
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[-6] ^= 0xFF  # within the CRC
    for content in (whole[:-9], whole[:5], b"plain text", bytes(flipped), whole[:10] + b"\xff" * 20):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"train-labels-idx1-ubyte\.gz"):
            load(f"idx:{tmp_path}")


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="train-images-idx3-ubyte"):
        load(f"idx:{tmp_path}")
    images, labels = write(tmp_path)
    labels.unlink()
    with pytest.raises(DataError, match="train-labels-idx1-ubyte"):
        load(f"idx:{tmp_path}")
    write(tmp_path)
    images.unlink()
    with pytest.raises(DataError, match="train-images-idx3-ubyte"):
        load(f"idx:{tmp_path}")


def test_a_test_split_with_another_shape_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    write(tmp_path, "t10k")[0].write_bytes(encode_idx(np.zeros((3, 2, 2), dtype=np.uint8)))
    with pytest.raises(DataError, match=r"4 feature.*\b8\b"):
        load(f"idx:{tmp_path}")


@pytest.mark.slow
@pytest.mark.skipif(not MNIST.is_dir(), reason=f"MNIST is not in {MNIST}")
def test_mnist_has_its_published_counts() -> None:
    data = load(f"idx:{MNIST}")
    assert data.records.features.shape == (60_000, 784)
    assert np.bincount(data.records.labels).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert data.classes == 10
    assert data.test is not None
    assert data.test.features.shape == (10_000, 784)
    assert data.test.labels[:5].tolist() == [7, 2, 1, 0, 4]
