"""Step i: networks, REDQ, SAC and PPO, training with checkpoints; agents make policies.

Names are loaded on first use: the settings of an agent should not cost the import of torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
