"""A storm that never ends: fleets of every learner under any mix of faults, each from one number."""
