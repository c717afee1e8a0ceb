"""Attack a learner as shipped, and print the verdict and the lower bounds on ε that the attack proves."""

import sottovoce_lab as lab

outcome = lab.audit("learner", "golf", epsilon=1.0, trials=500)
print(outcome.verdict)
for finding in outcome.findings:
    print(finding)
