"""What a fit takes: scaled inputs and normalised returns."""

from dataclasses import dataclass

from torch import Tensor

__all__ = ["Rows"]


@dataclass(frozen=True)
class Rows:
    """Inputs of the predictor and normalised returns, one row per step."""

    inputs: Tensor  # (rows, features): scaled observations, then the clock if there is one
    targets: Tensor  # (rows,) in [0, 1]

    def __len__(self) -> int:
        return len(self.targets)

    def span(self, start: int, stop: int) -> "Rows":
        """Rows `start` to `stop`."""
        return Rows(self.inputs[start:stop], self.targets[start:stop])

    def to(self, device: str) -> "Rows":
        """The same on that device."""
        return Rows(self.inputs.to(device), self.targets.to(device))
