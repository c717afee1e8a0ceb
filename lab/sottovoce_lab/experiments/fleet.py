"""Prepare a fleet of one-record devices: their records, the perturbation and the test set."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sottovoce.data import Bounds, DataSet, Records, apply, load, synthetic, two_gaussians, uniform_bounds, width
from sottovoce.errors import UsageError
from sottovoce.kernels.linear import copies, targets
from sottovoce.privacy.perturbation import Scheme, scheme, select_scheme, select_scheme_for_ridge

from sottovoce_lab.experiments.seeds import Stream, derive_seed, generator
from sottovoce_lab.experiments.settings import Settings
from sottovoce_lab.simulator.partition import holdout, one_record
from sottovoce_lab.simulator.simulated_records import simulate
from sottovoce_lab.simulator.vector import MAX_STORES

_AGENTS = 1000
_TRAINING_SHARE = 0.9
_CHUNK = 2**16
_MAX_PIXELS = 256
_FEW_FEATURES = 8


@dataclass(frozen=True, slots=True)
class Fleet:
    """A fleet with one record per device, and the public facts that all devices share.

    Attributes:
        settings: the settings for the run.
        name: the data set name.
        records: the transformed records, one per device, in device order; rows are not yet scaled to length 1.
        test: the transformed test records, which no device has.
        classes: the number of classes, c.
        model: the model name.
        scheme: the record perturbation scheme.
        transform: the steps of the feature transform.
        training_bounds: whether the transform uses ranges computed from the training set.
        unproved: why the data set keeps the statement from being proved; empty if it does not.
    """

    settings: Settings
    name: str
    records: Records
    test: Records
    classes: int
    model: str
    scheme: Scheme
    transform: str
    training_bounds: bool
    unproved: str = ""

    def perturbed_records(self) -> NDArray[np.float32]:
        """Return each device's record y^(k)x, float32[n,k,d]: perturbed, or scaled to length 1 in a noiseless run."""
        n, d = self.records.features.shape
        q = np.empty((n, copies(self.classes), d), dtype=np.float32)
        stream = generator(self.settings.seed, Stream.NOISE)
        for part in _chunks(n):
            features, labels = self.records.features[part], self.records.labels[part]
            if self.settings.is_noiseless:
                q[part] = targets(labels, self.classes)[:, :, np.newaxis] * self.normalise(features)[:, np.newaxis]
            else:
                q[part] = self.scheme.decode(simulate(self.scheme, features, labels, stream))
        return q

    def released_values(self) -> NDArray[np.int64]:
        """Return the devices' releases on the scheme's grid, int64[n, width], with the noise in `perturbed_records`."""
        values = np.empty((len(self.records), self.scheme.width), dtype=np.int64)
        stream = generator(self.settings.seed, Stream.NOISE)
        for part in _chunks(len(values)):
            features, labels = self.records.features[part], self.records.labels[part]
            values[part] = simulate(self.scheme, features, labels, stream)
        return values

    def normalise(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scale rows to length 1 in the learner's norm; zero rows stay zero.

        The norm is L1 with fidelity `paper` and for the learner gradient-walk, and L2 in all other cases.
        """
        order = 1 if self.settings.fidelity == "paper" or self.settings.learner.name == "gradient-walk" else 2
        lengths = np.linalg.norm(features, ord=order, axis=1, keepdims=True)
        units: NDArray[np.float64] = np.divide(features, lengths, out=np.zeros_like(features), where=lengths > 0)
        return units


def assemble(settings: Settings, data: DataSet | None = None) -> Fleet:
    """Load the data, hold out a test set, assign one record to each device, and transform the records.

    Args:
        settings: the settings for the run.
        data: the data set in `settings.data.source`, if it is already loaded.

    The official test split is used if there is one. If not, the test set consists of all records that no device gets,
    or of a tenth of the records if the number of agents is not specified.

    Raises:
        DataError: if the data cannot be read, or a transform does not apply to it.
        PrivacyError: if there is no scheme for these data and this ε.
        UsageError: if there are too few records for this many agents and a test set.
    """
    data = _load_data(settings) if data is None else data
    train, test, bounds = data.records, data.test, data.bounds
    seed, agents = settings.seed, settings.agents
    if test is None:
        share = 1 - (_TRAINING_SHARE if agents is None else agents / len(train))
        if share <= 0:
            raise UsageError(
                f"agents = {agents}: with one of the {len(train)} records for each agent, none is left for testing; "
                "choose fewer agents"
            )
        train_rows, test_rows = holdout(len(train), seed, share)
        train, test = train.at(train_rows), train.at(test_rows)
    agents = len(train) if agents is None else agents
    train = train.at(one_record(len(train), agents, seed))
    training_bounds = settings.data.bounds == "training" or (
        settings.data.bounds is None and settings.fidelity == "paper"
    )
    if training_bounds:
        bounds = (train.features.min(axis=0), train.features.max(axis=0))
    elif isinstance(settings.data.bounds, tuple):
        bounds = uniform_bounds(*settings.data.bounds, train.features.shape[1], "data.bounds")
    model = _model(settings, agents)
    transform = settings.data.transform or _default_transform(settings, data)
    return Fleet(
        settings=settings,
        name=data.name,
        records=Records(_transform(transform, train.features, bounds), train.labels),
        test=Records(_transform(transform, test.features, bounds), test.labels),
        classes=data.classes,
        model=model,
        scheme=_scheme(settings, model, width(transform, train.features.shape[1]), data.classes),
        transform=transform,
        training_bounds=training_bounds,
        unproved=data.unproved,
    )


def _load_data(settings: Settings) -> DataSet:
    source, agents = settings.data.source, settings.agents or _AGENTS
    data_seed = derive_seed(settings.seed, Stream.DATA)
    if source == "synthetic":
        return synthetic(settings.data.features, settings.data.classes, agents, data_seed)
    if source == "two-gaussians":
        return two_gaussians(agents, data_seed)
    return load(source)


def _default_transform(settings: Settings, data: DataSet) -> str:
    """Return the default transform for these settings and data.

    With fidelity `paper`, this is min-max scaling to [0, 1]. In all other cases, features are scaled by their declared
    bounds or by a logarithm, and each record's mean is subtracted, except from records with few features, whose mean
    carries much of their information. Large images are pooled; this costs a linear model little accuracy and makes
    every message three quarters smaller.
    """
    features = data.records.features.shape[1]
    if settings.fidelity == "paper":
        return "squash(1)"
    if settings.data.source == "synthetic":
        return "unit,bias(0.3)"
    if features < _FEW_FEATURES:
        return "squash(0.05),bias(0.3)" if data.bounds is None else "squash(1),subtract(0.5),bias(0.3)"
    side = math.isqrt(features)
    large_image = settings.data.source.startswith("idx:") and side * side == features > _MAX_PIXELS
    pooled = "pool(2)," if large_image and side % 2 == 0 else ""
    return f"squash(0.05),{pooled}centre,unit,bias(0.3)"


def _model(settings: Settings, agents: int) -> str:
    """Return the chosen model; the default is ridge, which learns the most from the releases.

    With fidelity `paper`, for walks, and in fleets too large for every device to store every record, the default is
    the paper's model, pegasos.
    """
    published = settings.fidelity == "paper" or settings.learner.name != "golf"
    return settings.learner.model or ("pegasos" if published or agents > MAX_STORES else "ridge")


def _scheme(settings: Settings, model: str, features: int, classes: int) -> Scheme:
    if settings.is_noiseless:
        return scheme("exact", features, classes, None)
    if settings.fidelity == "paper":
        return scheme("laplace-copies", features, classes, settings.epsilon)
    if settings.learner.perturbation == "best":
        choose = select_scheme_for_ridge if model == "ridge" else select_scheme
        return choose(features, classes, settings.epsilon)
    return scheme(settings.learner.perturbation, features, classes, settings.epsilon)


def _transform(transform: str, features: NDArray[np.float64], bounds: Bounds | None) -> NDArray[np.float64]:
    """Transform features in chunks, because a transform copies its input."""
    rows = np.empty((len(features), width(transform, features.shape[1])))
    for part in _chunks(len(features)):
        rows[part] = apply(transform, features[part], bounds)
    return rows


def _chunks(count: int) -> list[slice]:
    return [slice(start, start + _CHUNK) for start in range(0, count, _CHUNK)]
