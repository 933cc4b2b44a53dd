from .compare import CompareOptions as CompareOptions, Comparison as Comparison
from .counts import CountComparison as CountComparison
from .questions import Interval as Interval, Question as Question
from .samples import Sample as Sample
