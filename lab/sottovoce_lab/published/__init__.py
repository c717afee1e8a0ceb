"""Variants exactly as in the papers, without a proved guarantee: their noise, clipping and claims.

Devices do not install this package. The vault charges every release of these variants as infinite.
"""
