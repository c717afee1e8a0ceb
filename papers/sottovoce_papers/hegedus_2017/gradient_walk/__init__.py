"""The `gradient-walk` algorithm: gossip learning by gradient perturbation."""
