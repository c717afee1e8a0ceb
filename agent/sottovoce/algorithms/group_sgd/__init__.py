"""The `group-sgd` algorithm, which is DP-SGD over secure sums."""
