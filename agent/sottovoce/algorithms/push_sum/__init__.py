"""Push-sum SGD, and the learners of AdaD²P."""
