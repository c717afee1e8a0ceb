"""Terms between each kind of learner and its vault, one module per kind, and the construction of a vault."""

from sottovoce.privacy.terms.base import Terms
from sottovoce.privacy.terms.construction import build
from sottovoce.privacy.terms.guarantee import Scaling

__all__ = ["Scaling", "Terms", "build"]
