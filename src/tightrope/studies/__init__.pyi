from .run import Finished as Finished, describe as describe, run_study as run_study
from .spec import Study as Study, load_study as load_study
