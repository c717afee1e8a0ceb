"""Transformed records: each depends on the original record and on public declarations alone, to the last bit."""

import numpy as np
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from sottovoce.data import BIAS, Bounds, TransformName, apply

Batch = tuple[NDArray[np.float64], Bounds | None]

finite = st.floats(allow_nan=False, allow_infinity=False)
shapes = st.tuples(st.integers(1, 12), st.integers(1, 40))


@st.composite
def draw_bounds(draw: st.DrawFn, columns: int) -> Bounds | None:
    if draw(st.booleans()):
        return None
    side = arrays(np.float64, columns, elements=st.floats(-1e9, 1e9))
    first, second = draw(side), draw(side)
    return np.minimum(first, second), np.maximum(first, second)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    shape = draw(shapes)
    elements = draw(st.sampled_from([finite, st.floats(-1e3, 1e3), st.floats(-1e-300, 1e-300)]))
    return draw(arrays(np.float64, shape, elements=elements)), draw(draw_bounds(shape[1]))


NAMES: list[TransformName] = [
    "centred-unit",
    "standard",
    "none",
    "squash(0.05),centre,unit,bias(0.3)",
    "squash(1),subtract(0.5),bias(0.3)",
    "log(1e-9),unit",
]
names = st.sampled_from(NAMES)


@given(batches(), names, st.data())
def test_a_row_is_bit_identical_alone_and_in_any_batch(batch: Batch, name: TransformName, data: st.DataObject) -> None:
    features, bounds = batch
    together = apply(name, features, bounds)
    alone = np.vstack([apply(name, features[i : i + 1], bounds) for i in range(len(features))])
    assert together.tobytes() == alone.tobytes()
    order = data.draw(st.permutations(range(len(features))))
    assert apply(name, features[order], bounds).tobytes() == together[order].tobytes()


@given(batches(), names)
def test_the_memory_layout_of_the_batch_does_not_matter(batch: Batch, name: TransformName) -> None:
    features, bounds = batch
    expected = apply(name, features, bounds).tobytes()
    fortran = np.asfortranarray(features)
    strided = np.repeat(np.repeat(features, 2, axis=0), 3, axis=1)[::2, ::3]
    unaligned = np.frombuffer(b"\0" + features.tobytes(), dtype=np.float64, offset=1).reshape(features.shape)
    for same in (fortran, strided, unaligned):
        assert apply(name, same, bounds).tobytes() == expected


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 300), st.integers(1, 3000), st.integers(0, 2**32 - 1), st.booleans())
def test_a_row_is_bit_identical_in_large_batches(n: int, d: int, seed: int, bounded: bool) -> None:
    features = np.random.default_rng(seed).normal(scale=3.0, size=(n, d))
    bounds = (np.full(d, -4.0), np.linspace(-4.0, 5.0, d)) if bounded else None
    together = apply("centred-unit", np.asfortranarray(features), bounds)
    for row in {0, n // 2, n - 1}:
        assert apply("centred-unit", features[row : row + 1], bounds).tobytes() == together[row].tobytes()


@given(batches())
def test_norms_are_one_or_zero_and_the_bias_is_constant(batch: Batch) -> None:
    features, bounds = batch
    result = apply("centred-unit", features, bounds)
    norms = np.linalg.norm(result[:, :-1], axis=1)
    assert ((norms == 0) | (np.abs(norms - 1) < 1e-12)).all()
    assert (np.linalg.norm(result, axis=1) < np.sqrt(1.09) + 1e-12).all()
    assert (result[:, -1] == BIAS).all()


@given(batches())
def test_the_input_is_unchanged_and_the_output_is_finite(batch: Batch) -> None:
    features, bounds = batch
    before = features.tobytes()
    for name in NAMES:
        assert np.isfinite(apply(name, features, bounds)).all()
    assert features.tobytes() == before


@given(batches())
def test_the_none_transform_clamps_to_the_declared_bounds(batch: Batch) -> None:
    features, bounds = batch
    result = apply("none", features, bounds)
    if bounds is None:
        assert np.array_equal(result, features)
    else:
        assert (bounds[0] <= result).all()
        assert (result <= bounds[1]).all()
