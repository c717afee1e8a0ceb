"""Attack a learner as shipped, and print the verdict and the lower bounds on ε that the attack proves."""

import sottovoce_lab as lab

found = lab.audit("learner", "golf", epsilon=1.0, trials=500)
print(found.verdict)
for finding in found.findings:
    print(finding)
