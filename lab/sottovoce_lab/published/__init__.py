"""Variants exactly as in the papers, without a proved guarantee: their noise, clipping and claims.

Devices do not install this package. The vault charges every release of these variants as infinite. `simulated_sums`
makes the releases of a whole simulated fleet at a time.
"""
