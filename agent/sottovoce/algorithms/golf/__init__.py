"""The `golf` algorithm, which is gossip learning by data perturbation."""
