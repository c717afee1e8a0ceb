"""Compute the noise that a privacy budget requires, and the cost of further releases."""

import sottovoce

noise = sottovoce.calibrate("gaussian", epsilon=1, delta=1e-5, releases=1000, rate=0.01)
print(f"σ = {noise.noise:.3f} for a sum of vectors of length 1, by {noise.accountant}")
event = f"gaussian:sigma={noise.noise},rate=0.01,count=2000"
print(f"twice as many releases: ε = {sottovoce.compose(event, delta=1e-5).epsilon:.3f}")
try:
    sottovoce.calibrate("gaussian", epsilon=1, delta=0)
except sottovoce.PrivacyError as error:
    print(error)
