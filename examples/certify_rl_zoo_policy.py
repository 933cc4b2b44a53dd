"""Certify a policy that rl-zoo trained.

    python examples/certify_rl_zoo_policy.py logs/ppo/Hopper-v4_1

The run folder names the environment, its arguments and the observation statistics, so nothing else
is needed. The same on the command line: tightrope certify logs/ppo/Hopper-v4_1. About two minutes.
"""

import sys

import tightrope as tr


def main(folder: str, *options: str) -> None:
    """Certify, print, keep."""
    settings = {name: int(number) for name, number in (each.split("=") for each in options)}
    certificate = tr.certify(folder, **settings)  # such as episodes=400; 200 by default
    print(certificate)

    columns = ["name", "share", "value_raw", "estimate", "n", "confidence"]
    print(certificate.to_pandas()[columns].to_string(index=False))

    certificate.save("certificate")  # then: tightrope verify certificate


if __name__ == "__main__":
    main(*sys.argv[1:])
