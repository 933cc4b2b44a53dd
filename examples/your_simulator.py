"""Certify a policy with memory in a simulator of your own: a function of a seed is all it takes.

Run it, or: tightrope certify examples/your_simulator.py:roll_out --episodes 100
"""

import numpy as np

import tightrope as tr

STEP = 0.05  # seconds


def roll_out(seed):
    """One episode: hold a mass at 0, seeing its position only, with a memory of its speed."""
    rng = np.random.default_rng(seed)
    position, speed, memory = rng.normal(), 0.0, np.zeros(2)
    observations, actions, rewards = [], [], []
    while len(rewards) < 120 and abs(position) < 4:
        seen = position + rng.normal(scale=0.01)
        memory = np.array([seen, 0.7 * memory[1] + 0.3 * (seen - memory[0]) / STEP])  # recurrent
        force = np.clip(-3 * memory[0] - 2 * memory[1], -5, 5)
        speed += STEP * (force + rng.normal(scale=2))
        position += STEP * speed
        observations.append(memory)  # any features that tell what is to come, here the memory
        actions.append([force])
        rewards.append(1 - position**2)
    lost = abs(position) >= 4
    return {
        "observations": observations,
        "actions": actions,
        "rewards": rewards,
        "terminated": lost,
    }


def main(episodes=100):
    """Roll out in all processes and certify."""
    print(tr.certify(roll_out, episodes=episodes))


if __name__ == "__main__":
    main()
