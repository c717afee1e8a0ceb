"""Push-sum SGD, and AdaD²P's learners."""
