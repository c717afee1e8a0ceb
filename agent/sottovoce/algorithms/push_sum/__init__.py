"""Push-sum SGD, including the learners of AdaD²P."""
