from .callback import CertifyCallback as CertifyCallback
from .check import CheckReport as CheckReport, Condition as Condition, Conditions as Conditions
from .monitor import Monitor as Monitor, Status as Status
from .plan import episodes_for as episodes_for, forecast as forecast
from .watch import MonitoredEpisode as MonitoredEpisode, MonitorWrapper as MonitorWrapper
