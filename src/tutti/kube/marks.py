"""Who is near whom: selectors that somebody asks about, and which pods they mean."""

from collections.abc import Iterable, Mapping

from tutti.jobs.kube.select import labels_match
from tutti.jobs.kube.wants import Beside, Company, Wants


class Marks:
    """Every selector of an affinity or a spread that some pod has. Pods they mean carry the selector's mark."""

    def __init__(self) -> None:
        self.known: dict[str, Company] = {}
        self.repelled: dict[str, dict[tuple[str, str], None]] = {}
        """By the mark of pods: the marks of those who keep away from them, and how far."""

    def learn(self, wants: Wants) -> bool:
        """Take in the selectors of a pod; whether one of them is new."""
        before = len(self.known), sum(map(len, self.repelled.values()))
        for company in self._named(wants):
            self.known.setdefault(company.mark, company)
        for beside in wants.apart:
            self.repelled.setdefault(beside.company.mark, {})[repelling(beside), beside.key] = None
        if before == (len(self.known), sum(map(len, self.repelled.values()))):
            return False
        # Whoever came first: pods with the same selectors have the same marks in the same order.
        self.known = dict(sorted(self.known.items()))
        self.repelled = {mark: dict.fromkeys(sorted(pairs)) for mark, pairs in self.repelled.items()}
        return True

    def _named(self, wants: Wants) -> Iterable[Company]:
        yield from (beside.company for beside in (*wants.near, *wants.apart))
        yield from (rule.company for rule in wants.spread)

    def of(self, namespace: str, labels: Mapping[str, str]) -> tuple[str, ...]:
        """The marks of a pod: the selectors that mean it."""
        if not self.known:
            return ()
        return tuple(mark for mark, company in self.known.items() if means(company, namespace, labels))

    def left(self, wants: Wants, marks: Iterable[str]) -> tuple[str, ...]:
        """What a pod leaves on its node for others to see."""
        return (*marks, *wants.ports, *(repelling(beside) for beside in wants.apart))


def means(company: Company, namespace: str, labels: Mapping[str, str]) -> bool:
    """Whether a selector means a pod."""
    return (not company.namespaces or namespace in company.namespaces) and labels_match(company.selector, labels)


def repelling(beside: Beside) -> str:
    """The mark of a pod that keeps away from others."""
    return f"apart {beside.company.mark} {beside.key}"
