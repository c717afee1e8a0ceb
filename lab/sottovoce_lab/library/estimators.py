"""Estimators with the scikit-learn interface, trained by a simulated fleet across which the records are split."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from sottovoce.data import DataSet, Table, apply
from sottovoce.data.dataset import CLASSES_READ
from sottovoce.errors import UsageError
from sottovoce.kernels.mlp import Perceptron
from sottovoce.kernels.softmax import Softmax
from sottovoce.learning.registry import DEFAULT
from sottovoce.node.public_model import predict
from sottovoce.privacy.api import Status
from sottovoce.privacy.terms.guarantee import REFUTED

from sottovoce_lab.library.arrays import ARRAYS, declared_bounds, scale_to_unit_range, with_constant
from sottovoce_lab.library.simulation import simulate_plan, warn_about_data
from sottovoce_lab.library.wording import ESTIMATOR, speaks_python
from sottovoce_lab.testbed.plan import plan
from sottovoce_lab.testbed.run_spec import build_run_spec

Floats = NDArray[np.float64]


class PrivacyWarning(UserWarning):
    """Warns that a privacy guarantee does not hold as stated because of how an estimator is used."""


class _Fleet(BaseEstimator):  # type: ignore[misc]
    """Common base class for the estimators.

    Args:
        learner: the name of the learning algorithm.
        agents: the number of devices, reduced to the number of records if it is larger.
        epsilon: the total ε in each device's budget; infinity for no noise.
        delta: the total δ in each device's budget.
        bounds: the publicly known lowest and highest feature values, each a single number or one number per feature. If
            None, the range of the training records is used and a PrivacyWarning is issued, because that range reveals
            information about single records.
        cycles: number of cycles per device; by default 60, or as many as the learner's steps need.
        settings: additional keys of a device's configuration.
        random_state: seed for the partition, the network and the simulated noise, which provides no privacy.
    """

    def __init__(
        self,
        learner: str = DEFAULT,
        *,
        agents: int = 10,
        epsilon: float = 2.0,
        delta: float = 1e-5,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        cycles: int | None = None,
        settings: Mapping[str, Any] | None = None,
        random_state: int = 0,
    ) -> None:
        self.learner = learner
        self.agents = agents
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.cycles = cycles
        self.settings = settings
        self.random_state = random_state

    @speaks_python(ESTIMATOR)
    def _fit_fleet(self, data: DataSet) -> None:
        keys = {
            "learner": self.learner,
            "agents": min(self.agents, len(data.records)),
            "epsilon": self.epsilon,
            "delta": self.delta,
            **({} if self.cycles is None else {"cycles": self.cycles}),
            "seed": self.random_state,
            "data": ARRAYS,
            **(self.settings or {}),
        }
        planned = plan(build_run_spec(keys, type(self).__name__).options(), data)
        warn_about_data(planned, ESTIMATOR)
        run = simulate_plan(planned)
        self.model_ = run.models[0]
        self.privacy_ = dict(run.privacy)
        if self._reads_ranges:
            self.privacy_ |= {"status": Status.REFUTED.value, "reason": REFUTED, "epsilon": None}
        self.n_iter_ = planned.options.cycles
        self._transform, self._kernel, self._bounds = planned.transform, planned.family.model, planned.bounds

    @property
    def _reads_ranges(self) -> bool:
        """Whether a range is computed from the training records."""
        return self.bounds is None

    def _ranges(
        self, features: Floats, bounds: tuple[ArrayLike, ArrayLike] | None, parameter: str
    ) -> tuple[Floats, Floats]:
        """Return each column's range, as declared or from the training records; its width is never 0."""
        if bounds is None:
            warnings.warn(
                f"{parameter} was not given, so the range of the training records is used, which reveals information "
                "about single records; specify a range that does not depend on the records",
                PrivacyWarning,
                stacklevel=3,
            )
            low, high = features.min(axis=0), features.max(axis=0)
        else:
            low, high = declared_bounds(bounds, features.shape[1])
        return low, np.where(high > low, high, low + 1.0)


class FleetClassifier(ClassifierMixin, _Fleet):  # type: ignore[misc]
    """A classifier trained by a simulated fleet; see _Fleet for the parameters.

    Args:
        classes: the publicly known labels. If None, they are read off the training records, and the privacy statement
            says that nothing is proved.

    Attributes:
        classes_: the labels, sorted.
        model_: the first device's model, float64[P].
        privacy_: the privacy statement that devices would have if the noise were real.
    """

    def __init__(
        self,
        learner: str = DEFAULT,
        *,
        agents: int = 10,
        epsilon: float = 2.0,
        delta: float = 1e-5,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        classes: ArrayLike | None = None,
        cycles: int | None = None,
        settings: Mapping[str, Any] | None = None,
        random_state: int = 0,
    ) -> None:
        super().__init__(
            learner,
            agents=agents,
            epsilon=epsilon,
            delta=delta,
            bounds=bounds,
            cycles=cycles,
            settings=settings,
            random_state=random_state,
        )
        self.classes = classes

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Divide the records among the devices, and train the fleet.

        Args:
            X: features, float[n, d].
            y: labels, [n].
        """
        features, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        self.classes_ = np.unique(labels if self.classes is None else np.asarray(self.classes))
        indices = np.minimum(np.searchsorted(self.classes_, labels), len(self.classes_) - 1)
        if (self.classes_[indices] != labels).any():
            raise ValueError("y contains a label that is not in classes; list all labels that may occur")
        if len(self.classes_) < 2:
            raise ValueError(
                f"FleetClassifier requires records of at least 2 classes, but got 1 class, {self.classes_[0]}"
            )
        bounds = self._ranges(features, self.bounds, "bounds")
        records = (features, indices.astype(np.int64))
        sample = (records[0][:1], records[1][:1])  # nothing is evaluated here, so no records are held out
        count = len(self.classes_)
        table = Table(name=ARRAYS, rows=records, test=sample, classes=count, bounds=bounds, origin="X, y")
        self._fit_fleet(replace(table.dataset(), unproved=CLASSES_READ if self.classes is None else ""))
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the labels, [m], for features, float[m, d]."""
        check_is_fitted(self)
        rows = apply(self._transform, validate_data(self, X, reset=False, dtype=np.float64), self._bounds)
        labels: NDArray[Any] = self.classes_[predict(self._kernel, self.model_, rows, len(self.classes_))]
        return labels

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return scores for features, float64[m, d]: float64[m] for two classes, positive for the second one.

        With more classes, the scores are float64[m, classes], and the highest score is that of the predicted class.
        """
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return the model's probability of each class, float64[m, classes], for features, float64[m, d].

        The noise of training is part of the model, so these probabilities are not calibrated.
        """
        scores = self._scores(X)
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        probabilities: Floats = odds / odds.sum(axis=1, keepdims=True)
        return probabilities

    def _scores(self, X: ArrayLike) -> Floats:
        check_is_fitted(self)
        rows = apply(self._transform, validate_data(self, X, reset=False, dtype=np.float64), self._bounds)
        if not isinstance(self._kernel, Softmax | Perceptron):
            raise UsageError(
                f"{type(self._kernel).__name__} gives labels only: use predict, or the model softmax or mlp"
            )
        scores: Floats = self._kernel.logits(self.model_[np.newaxis], rows)[0]
        return scores


class FleetRegressor(RegressorMixin, _Fleet):  # type: ignore[misc]
    """A linear regression trained by a simulated fleet; see _Fleet for the parameters.

    Args:
        target_bounds: the publicly known lowest and highest target values; see `bounds`.

    Attributes:
        model_: the first device's model, float64[P].
        privacy_: the privacy statement that devices would have if the noise were real.
    """

    def __init__(
        self,
        learner: str = DEFAULT,
        *,
        agents: int = 10,
        epsilon: float = 2.0,
        delta: float = 1e-5,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        target_bounds: tuple[float, float] | None = None,
        cycles: int | None = None,
        settings: Mapping[str, Any] | None = None,
        random_state: int = 0,
    ) -> None:
        super().__init__(
            learner,
            agents=agents,
            epsilon=epsilon,
            delta=delta,
            bounds=bounds,
            cycles=cycles,
            settings=settings,
            random_state=random_state,
        )
        self.target_bounds = target_bounds

    @property
    def _reads_ranges(self) -> bool:
        return self.bounds is None or self.target_bounds is None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Divide the records among the devices, and train the fleet.

        Args:
            X: features, float[n, d].
            y: target values, [n].
        """
        features, targets = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        self._features = self._ranges(features, self.bounds, "bounds")
        column = targets.astype(np.float64)[:, np.newaxis]
        self._target = self._ranges(column, self.target_bounds, "target_bounds")
        rows = np.hstack(
            [with_constant(scale_to_unit_range(features, self._features)), scale_to_unit_range(column, self._target)]
        )
        records = (rows, np.zeros(len(rows), dtype=np.int64))
        sample = (rows[:1], records[1][:1])
        unit_bounds = (np.full(rows.shape[1], -1.0), np.full(rows.shape[1], 1.0))
        table = Table(name=ARRAYS, rows=records, test=sample, classes=1, bounds=unit_bounds, origin="X, y")
        self._fit_fleet(table.dataset())
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Predict the target values, float64[m], for features, float[m, d]."""
        check_is_fitted(self)
        rows = with_constant(scale_to_unit_range(validate_data(self, X, reset=False, dtype=np.float64), self._features))
        low, high = (float(bound[0]) for bound in self._target)
        return low + (predict(self._kernel, self.model_, rows, 1) + 1) / 2 * (high - low)
