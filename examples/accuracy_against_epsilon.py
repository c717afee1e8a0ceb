"""Plot accuracy against ε for two learners on your own arrays, and save the plot as accuracy.png."""

import sottovoce_lab as lab
from sklearn.datasets import load_breast_cancer

features, labels = load_breast_cancer(return_X_y=True)
highest = [40, 50, 300, 3000, 1, 1, 1, 1, 1, 1, 5, 10, 40, 1000, 1, 1, 1, 1, 1, 1, 50, 60, 400, 6000, 1, 2, 2, 1, 1, 1]
runs = lab.simulate(
    (features, labels),
    bounds=(0, highest),  # known without looking at the data
    learner=["clipd2p", "dp-dpsgd"],
    agents=8,
    epsilon=[0.5, 2, 8],
    seed=range(2),
)
runs.plot().figure.savefig("accuracy.png")
for run in runs:
    print(run.learner, run.epsilon, run.seed, round(run.final["accuracy_mean"], 3), "majority", round(run.majority, 3))
