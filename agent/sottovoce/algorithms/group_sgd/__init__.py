"""The `group-sgd` algorithm: DP-SGD over secure sums."""
