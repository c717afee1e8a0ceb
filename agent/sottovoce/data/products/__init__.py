"""Products of a secure sum over homes: which numbers one home contributes for a profile, for flags and for quantiles.

One sum can serve several products. Each product is a block of the home's vector, whose L2 norm the home limits to 1.
Block b is scaled by √s_b, where the declared shares s_b add up to 1, so the whole vector has a norm of at most 1: with
or without one home, the sum differs by at most 1 in L2 norm, and one charge covers all products. Noise of standard
deviation σ in the sum is noise of σ/√s_b in block b (docs/explanation/products.md).
"""

from sottovoce.data.products.blocks import AnnualBins, Block, Curve, Flags
from sottovoce.data.products.flags import RULES
from sottovoce.data.products.known_homes import PUBLIC_NAMES, PublicHomes, read_public
from sottovoce.data.products.vector import FLEETS, PRODUCTS, Products, make_products

__all__ = [
    "FLEETS",
    "PRODUCTS",
    "PUBLIC_NAMES",
    "RULES",
    "AnnualBins",
    "Block",
    "Curve",
    "Flags",
    "Products",
    "PublicHomes",
    "make_products",
    "read_public",
]
