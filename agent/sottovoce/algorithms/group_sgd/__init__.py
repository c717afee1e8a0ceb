"""DP-SGD over secure sums."""
