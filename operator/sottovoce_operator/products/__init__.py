"""Products of a fleet: what an opened sum says about profiles, flags and quantiles, with errors and public priors."""

from sottovoce_operator.products.decode import estimate_products
from sottovoce_operator.products.estimate import Opened, root_mean_square

__all__ = ["Opened", "estimate_products", "root_mean_square"]
