"""What a cluster refuses or leaves unanswered, in words for whoever typed a command."""

from collections.abc import Iterator
from contextlib import contextmanager

from tutti.errors import Refused, TuttiError

from .api import ApiError
from .http import Broken

UNKNOWN = 401


@contextmanager
def plainly() -> Iterator[None]:
    """Errors of the API become errors that people can put right, however deep they come from."""
    try:
        yield
    except (ApiError, Broken, BaseExceptionGroup) as problem:
        found = _leaf(problem)
        if found is None:
            raise
        raise _worded(found) from None


def _leaf(problem: BaseException) -> ApiError | Broken | TuttiError | None:
    """The first of them that means something to people."""
    if isinstance(problem, BaseExceptionGroup):
        return next((found for one in problem.exceptions if (found := _leaf(one)) is not None), None)
    return problem if isinstance(problem, ApiError | Broken | TuttiError) else None


def _worded(problem: ApiError | Broken | TuttiError) -> TuttiError:
    match problem:
        case TuttiError():
            return problem
        case Broken():
            trusted = "CERTIFICATE_VERIFY_FAILED" not in str(problem)
            hint = "check --kubeconfig and --context" if trusted else "check certificate-authority in the kubeconfig"
            return TuttiError(f"the API server cannot be reached: {problem}", hint=hint)
        case ApiError(status=status) if status == UNKNOWN:
            return Refused("the API server does not know this token.", hint="check --kubeconfig and --context")
        case _:
            return Refused(f"the API server says no: {problem.message}", hint="tutti kube doctor")
