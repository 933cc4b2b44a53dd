from .compare_options import CompareOptions as CompareOptions
from .counts import CountComparison as CountComparison
from .questions import Interval as Interval, Question as Question
from .result import Comparison as Comparison
from .samples import Sample as Sample
