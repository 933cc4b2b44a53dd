from .config import Study as Study, load_study as load_study
from .runner import StudyRun as StudyRun, describe as describe, run_study as run_study
