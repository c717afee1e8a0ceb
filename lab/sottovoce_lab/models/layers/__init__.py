"""Layers; each defines its declaration, shapes, forward pass and backward pass."""
