"""Layers: each with its declaration, its shapes, its forward pass and, beside it, its backward pass."""
