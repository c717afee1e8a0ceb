"""The private half of each learner: what it computes from records, and by what bound it is charged. One file each."""
