"""Layers, each of which defines its declaration, shapes, forward pass and backward pass."""
