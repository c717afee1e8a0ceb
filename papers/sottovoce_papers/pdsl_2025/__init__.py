"""PDSL (arXiv 2503.23726) and the algorithms that it is compared with: DP-DPSGD, DP-CGA, Muffliato and DP-NET-FLEET."""
