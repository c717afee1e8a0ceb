"""Attack a learner as shipped, and show the ε that the attacker proves beside the promised ε."""

import sottovoce_lab as lab

found = lab.audit("learner", "golf", epsilon=1.0, trials=500)
print(found.verdict)
for finding in found.findings:
    print(finding)
