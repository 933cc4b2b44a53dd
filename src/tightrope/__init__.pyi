__version__: str

from .certificates import (
    Certificate as Certificate,
    Property as Property,
    load_certificate as load_certificate,
)
from .certificates.certify import certify as certify
from .certificates.verify import verify as verify
from .comparison import Comparison as Comparison
from .comparison.compare import compare as compare
from .deploy import (
    CertifyCallback as CertifyCallback,
    Conditions as Conditions,
    Monitor as Monitor,
    MonitorWrapper as MonitorWrapper,
)
from .deploy.check import check as check
from .rollouts import (
    Episodes as Episodes,
    Rollout as Rollout,
    collect as collect,
    load_episodes as load_episodes,
)
