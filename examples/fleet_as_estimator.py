"""Use a fleet as a scikit-learn estimator, and cross-validate it with two budgets."""

import sottovoce_lab as lab
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_score

images, digits = load_digits(return_X_y=True)
for epsilon in (1.0, 4.0):
    fleet = lab.FleetClassifier(epsilon=epsilon, agents=10, bounds=(0, 16))
    scores = cross_val_score(fleet, images, digits, cv=2)
    print(f"ε = {epsilon}: mean accuracy {scores.mean():.3f} over two folds; guessing scores about 0.1")
