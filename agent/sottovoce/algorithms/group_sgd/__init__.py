"""The algorithm `group-sgd`: DP-SGD over secure sums."""
