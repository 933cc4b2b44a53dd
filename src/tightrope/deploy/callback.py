"""Certificates while an SB3 algorithm trains."""

import copy
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

from tightrope.certificates.certificate import Certificate
from tightrope.certificates.certify import certify, open_source
from tightrope.certificates.options import Options
from tightrope.certificates.settings import settle
from tightrope.errors import InputError, one_line
from tightrope.posteriors import Preset
from tightrope.rollouts import Rollout
from tightrope.seeds import resolve_seed

__all__ = ["CertifyCallback"]

_LEVELS = (0.9, 0.95)  # of the tolerance: logged under names that do not depend on any value


class CertifyCallback(BaseCallback):
    """Certify the policy that an SB3 algorithm has learnt, at the end or every N steps.

    Any algorithm with a `policy` will do. The policy of that moment is copied, with the
    observation statistics of its VecNormalize, and rolled out elsewhere with seeds of its own: the
    training is not affected. Several certificates hold together, and you may keep the best: the
    option `candidates` is multiplied by their number. The numbers go to SB3's logger, and so to
    TensorBoard, as ``certificate/...``.

    Attributes:
        certificates: what was issued, by the number of steps.

    >>> # callback = CertifyCallback("Hopper-v4", every=100_000, episodes=100)
    >>> # model.learn(300_000, callback=callback)
    >>> # print(callback.last)
    """

    def __init__(
        self,
        env: Any = None,
        *,
        every: int | None = None,
        out: str | Path | None = None,
        rollout: Rollout | None = None,
        verbose: int = 0,
        preset_values: Preset | None = None,
        **options: Any,
    ) -> None:
        """Check the options.

        Args:
            env: as for :func:`tightrope.certify`; None: what the model trains in, if Gymnasium can
                build another one.
            every: steps between certificates; None: one, at the end of training.
            out: folder in which each certificate gets a folder ``steps-N``; None: none is written.
            rollout: how the policy is rolled out.
            verbose: 1 prints each headline.
            preset_values: a preset of your own, as for :func:`tightrope.certify`.
            options: such as ``episodes=50``, as for :func:`tightrope.certify`.

        Raises:
            InputError: an option is wrong.
        """
        super().__init__(verbose)
        if every is not None and every < 1:
            raise InputError(f"`every` must be a whole number of at least 1, found {every!r}")
        self.options = Options(**options)
        self.env, self.every, self.out = env, every, out
        self.rollout, self.preset_values = rollout or Rollout(), preset_values
        self.certificates: dict[int, Certificate] = {}
        self._due: list[int] = []  # numbers of steps, but for the end
        self._planned, self._number = 0, 0

    @property
    def last(self) -> Certificate:
        """The latest certificate.

        Raises:
            InputError: there is none yet.
        """
        if not self.certificates:
            raise InputError("expected a certificate, found none yet: train first")
        return self.certificates[max(self.certificates)]

    def _on_training_start(self) -> None:
        if self._planned:
            raise InputError(
                "expected a new CertifyCallback for each training, found a used one: the number of "
                "its certificates is part of their confidence"
            )
        if self.env is None:
            self.env = _environment(self.model)
        start, total = self.model.num_timesteps, int(self.locals["total_timesteps"])
        every = self.every or total
        self._due = [*range(start + every, total, every)]
        self._planned = len(self._due) + 1
        # What can be refused is refused before anything is learnt.
        settle(self._options(0), open_source(self.model, self.env, self.rollout))

    def _on_step(self) -> bool:
        if self._due and self.num_timesteps >= self._due[0]:
            self._due = [steps for steps in self._due if steps > self.num_timesteps]
            self._certify()
        return True

    def _on_training_end(self) -> None:
        self._certify()

    def _certify(self) -> None:
        """Issue, keep, write and log; what cannot be certified does not cost the training."""
        number, self._number = self._number, self._number + 1
        try:
            made = certify(
                self.model,
                self.env,
                rollout=self.rollout,
                preset_values=self.preset_values,
                **vars(self._options(number)),
            )
            if self.out is not None:
                made = made.save(Path(self.out) / f"steps-{self.num_timesteps}")
        except InputError as error:
            warnings.warn(f"no certificate at {self.num_timesteps} steps: {error}", stacklevel=2)
            return
        self.certificates[self.num_timesteps] = made
        if self.verbose:
            from tightrope.certificates.text import headline

            print(f"{self.num_timesteps} steps: {headline(made)}")
        numbers = _numbers(made)
        # Written on their own: SB3's running means, due later, are left as they are.
        for output in self.logger.output_formats:
            output.write(numbers, dict.fromkeys(numbers, ()), self.num_timesteps)

    def _options(self, number: int) -> Options:
        """Those of one certificate: its own episodes, its own part of the failure probability."""
        options, seed = self.options, self.options.seed
        if seed != "fresh":
            root = np.random.SeedSequence((resolve_seed(seed), number))
            seed = int(root.generate_state(1)[0] >> 1)
        return replace(options, seed=seed, candidates=options.candidates * self._planned)


def _numbers(certificate: Certificate) -> dict[str, Any]:
    """What is logged of a certificate; which keys there are depends on no score."""
    found: dict[str, Any] = {"bound": certificate.bound, "confidence": certificate.joint_confidence}
    for s in certificate.statements:
        if s.kind == "tolerance" and s.share in _LEVELS:
            found[f"rms-{100 * s.share:.0f}"] = s.limit
        elif s.kind in ("return", "failure"):
            found[s.name.replace(" ", "-")] = s.limit
    return {f"certificate/{name}": value for name, value in found.items()}


def _environment(model: Any) -> Any:
    """What a model trains in, another one of it, without SB3's Monitor around it."""
    import gymnasium as gym

    hint = "pass `env`, its id or a function that returns it, to CertifyCallback"
    vectorized = model.get_env()
    spec = None if vectorized is None else copy.copy(vectorized.get_attr("spec")[0])
    if spec is None:
        raise InputError(f"expected an environment that Gymnasium can build, found none: {hint}")
    spec.additional_wrappers = tuple(w for w in spec.additional_wrappers if w.name != "Monitor")
    try:
        return gym.make(spec, disable_env_checker=True)
    except Exception as error:  # Gymnasium's own, or whatever the constructor raises
        raise InputError(f"cannot build {spec.id!r} again ({one_line(error)}): {hint}") from error
