"""The private half of each learner: its computation on records, and the bound by which it is charged. One file each."""
