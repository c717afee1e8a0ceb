"""Storm of runs without end: fleets of every learner under any mix of faults, each drawn from one seed."""
