"""Certify a policy with memory in a simulator of your own: a function of a seed is all it takes.

Run it, or: tightrope certify examples/your_simulator.py:roll_out --episodes 100
"""

import numpy as np

import tightrope as tr

STEP = 0.05  # seconds


def roll_out(seed):
    """One episode: hold a mass at 0, seeing its position only, with a memory of its speed."""
    rng = np.random.default_rng(seed)
    position, speed, memory = rng.uniform(-1, 1), 0.0, np.zeros(2)
    seen, forces, rewards = [], [], []
    while len(rewards) < 120 and abs(position) < 2.5:
        measured = position + rng.normal(scale=0.01)
        rate = 0.7 * memory[1] + 0.3 * (measured - memory[0]) / STEP
        memory = np.array([measured, rate])  # recurrent: what was seen before counts
        force = np.clip(-3 * memory[0] - 2 * memory[1], -5, 5)
        speed += STEP * (force + rng.normal(scale=9))
        position += STEP * speed
        seen.append(memory)  # any numbers that tell what is to come: here the memory
        forces.append([force])
        rewards.append(1 - position**2)
    lost = bool(abs(position) >= 2.5)
    return {"observations": seen, "actions": forces, "rewards": rewards, "terminated": lost}


def main(episodes=100):
    """Roll out in all processes and certify."""
    print(tr.certify(roll_out, episodes=episodes))


if __name__ == "__main__":
    main()
