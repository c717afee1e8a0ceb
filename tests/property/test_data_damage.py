"""Data files with arbitrary bytes: loading either succeeds or raises a DataError."""

import gzip
import io
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, strategies as st
from sottovoce.data import load
from sottovoce.errors import DataError


def _npz() -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, X=np.arange(12.0).reshape(4, 3), y=np.array([0, 1, 1, 0]), classes=np.array(2))
    return stream.getvalue()


IMAGES = b"\0\0\x08\x03" + b"".join(side.to_bytes(4, "big") for side in (2, 2, 2)) + bytes(range(8))
LABELS = b"\0\0\x08\x01" + (2).to_bytes(4, "big") + b"\0\1"
TABLE = b'y,x,"z"\n0,1,2\n1,3,4\n'


@st.composite
def corrupt_files(draw: st.DrawFn, original: bytes) -> bytes:
    content = bytearray(original[: draw(st.integers(0, len(original)))] if draw(st.booleans()) else original)
    for position in draw(st.lists(st.integers(0, max(len(content) - 1, 0)), max_size=4)) if content else ():
        content[position] = draw(st.integers(0, 255))
    return bytes(content)


def check_load_or_refusal(spec: str, name: str, content: bytes, **other_files: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:
        for file, original in {name: content, **other_files}.items():
            (Path(directory) / file).write_bytes(original)
        try:
            data = load(spec.format(directory))
        except DataError:
            return
    assert np.isfinite(data.records.features).all()
    assert (data.records.labels < data.classes).all()


@given(corrupt_files(_npz()))
def test_corrupt_npz_loads_or_is_refused(content: bytes) -> None:
    check_load_or_refusal("npz:{}/a.npz", "a.npz", content)


@given(st.one_of(corrupt_files(IMAGES), st.binary(max_size=40)))
def test_corrupt_idx_loads_or_is_refused(content: bytes) -> None:
    check_load_or_refusal("idx:{}", "train-images-idx3-ubyte", content, **{"train-labels-idx1-ubyte": LABELS})


@given(corrupt_files(gzip.compress(IMAGES, mtime=0)))
def test_corrupt_gzipped_idx_loads_or_is_refused(content: bytes) -> None:
    check_load_or_refusal("idx:{}", "train-images-idx3-ubyte.gz", content, **{"train-labels-idx1-ubyte": LABELS})


@given(st.one_of(corrupt_files(TABLE), st.binary(max_size=40)), st.sampled_from(["label=y", "label=-1&header=no"]))
def test_corrupt_csv_loads_or_is_refused(content: bytes, options: str) -> None:
    check_load_or_refusal("csv:{}/a.csv#" + options, "a.csv", content)
