"""What the paper reports on each of its claims, and why another study may find otherwise."""

from dataclasses import dataclass

__all__ = ["PAPER", "PaperReport"]


@dataclass(frozen=True)
class PaperReport:
    """One claim in the paper.

    Attributes:
        reports: what the paper says, and on which data.
        differs: what is different here, and what it does to the claim.
    """

    reports: str
    differs: str


PAPER = {
    "correlation": PaperReport(
        "Strong. r rises with expertise and with recursion: above 0.9 for recursive bounds of the "
        "better policies in almost all environments; Hopper is weakest, 0.4 (NonRec-NonInf) to "
        "0.65 (Rec T=6) for starters. Five instances, five repetitions.",
        "Fewer trained instances: each r has only the points stated, and is large or small by "
        "chance. Bound and test error come from the same predictor, so that a poor predictor "
        "raises both: r does not show that a bound is tight.",
    ),
    "informed-prior": PaperReport(
        "Usually tighter, for all environments, levels and agents; less so for starters.",
        "The prior costs half of the episodes, which no longer support the bound. With preset "
        "paper it saves more divergence than that costs; preset tight has little divergence left "
        "to save.",
    ),
    "recursion": PaperReport(
        "Tighter again, most of all in difficult environments.",
        "Each step bounds half of the previous loss once more and pays for its logarithm, its "
        "divergence and its Monte Carlo draws. Here these terms are in full: losses are divided "
        "by their range before the inversion of kl, the logarithm stands inside the fraction, and "
        "the subtracted part is a lower bound (errata).",
    ),
    "deeper-recursion": PaperReport(
        "Six steps are generally tighter than two.",
        "The first of six portions has three episodes, and the failure probability is divided by "
        "six. In preset paper later steps start nearer to their priors; in preset tight they "
        "already do with two.",
    ),
    "validation-size": PaperReport(
        "Tighter with more episodes, recursive bounds most of all: with six steps half as many "
        "episodes do as well as without recursion (REDQ, Humanoid, experts).",
        "The direction is that of every valid bound, whose price falls with n. In unit step n "
        "counts thinned steps, in unit episode episodes, so that the effect has another size.",
    ),
    "local-reparameterisation": PaperReport(
        "Substantially tighter, for all four bounds (REDQ, Humanoid, experts).",
        "One draw of weights for a whole pass gives as many independent draws as passes, and the "
        "Monte Carlo term is bounded from these: most of the effect is this term, not the fit.",
    ),
    "expertise": PaperReport(
        "Tightness is said to be proportional to expertise (levels at 100,000, 200,000 and 300,000 "
        "steps).",
        "Levels are other numbers of steps, and errors are divided by the return range of the "
        "policy itself: a policy with large returns is judged on a wider scale.",
    ),
}
