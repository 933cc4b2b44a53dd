"""Fail a build unless a policy is certified: python examples/gate_in_ci.py policy.zip Hopper-v4.

Exits with 1 if a condition does not hold. Fix the conditions before you look at the certificate.
The same as a workflow of three commands: docs/gate.md.
"""

import sys

import tightrope as tr

CONDITIONS = tr.Conditions(max_failure=0.1, min_return=2000.0, min_confidence=0.95)


def main(policy: str, env: str, conditions: tr.Conditions = CONDITIONS, **options: int) -> int:
    """The exit code."""
    certificate = tr.certify(policy, env, **options)
    certificate.save("certificate")  # keep it as an artefact, whatever it says

    problems = tr.verify("certificate")  # every number, recomputed from the files
    report = tr.check("certificate", conditions)
    for line in (*problems, *report.conditions):
        print(line)
    return 0 if report.passed and not problems else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
