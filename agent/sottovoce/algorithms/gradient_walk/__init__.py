"""The `gradient-walk` algorithm, which is gossip learning by gradient perturbation."""
