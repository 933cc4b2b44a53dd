"""Certify my SB3 policy: train, certify the model in memory, ask a gate, keep the folder.

Takes about a minute of processor time. The training is far too short for a good policy: a
certificate says so rather than hides it.
"""

from stable_baselines3 import PPO

import tightrope as tr

model = PPO("MlpPolicy", "Pendulum-v1", seed=0, device="cpu")
model.learn(2048)

# The model may come from anywhere: PPO.load("policy.zip"), or the path itself. Without a seed the
# episodes are fresh ones each time, as they should be.
certificate = tr.certify(model, "Pendulum-v1", episodes=40, test_episodes=0)
print(certificate)

print(certificate.to_pandas()[["kind", "unit", "direction", "value_raw", "share", "confidence"]])
certificate.save("certificate")  # tightrope verify certificate; tightrope report certificate

gate = tr.check("certificate", tr.Conditions(max_rms=100.0, min_return=-1800.0, min_confidence=0.9))
for outcome in gate.outcomes:
    print(outcome)
print("deploy it" if gate.open else "do not deploy it")
