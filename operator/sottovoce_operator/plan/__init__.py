"""The plan of a task: the expected error of each product, before any privacy budget is spent."""
