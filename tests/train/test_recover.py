"""Taking a place in a run, when not everybody comes who was expected."""

from types import SimpleNamespace
from typing import Any

from tutti.train import fsdp, recover
from tutti.train.agent.generation import Generation
from tutti.train.errors import GroupLost


class Stage:
    """A job whose first generation does not come together, and what it does then."""

    def __init__(self, monkeypatch, *following):
        self.did: list[object] = []
        self.member = SimpleNamespace(
            name="m1", standby=None, announced=Generation(1, ("m0", "m1"), "", 0, ""), wait_place=lambda: None
        )
        self.group = SimpleNamespace(form=self.form, form_alone=lambda: self.did.append("alone"), is_alone=True)
        self.is_standby = False
        monkeypatch.setattr(recover, "next_generation", lambda *_: Generation(2, following, "", 0, ""))
        monkeypatch.setattr(recover, "release", lambda _: self.did.append("released"))
        monkeypatch.setattr(fsdp, "build_alone", lambda is_alone: self.did.append(is_alone()))

    def form(self, generation, *_):
        self.did.append(generation.number)
        raise GroupLost("m0 did not come")

    def set_place(self, *place):
        self.did.append(place)


def test_who_found_nobody_at_the_start_builds_alone(monkeypatch):
    """Others of the next generation may have built their models already: none is built together with them."""
    stage: Any = Stage(monkeypatch, "m1", "m2", "m3")
    recover.take_place(stage)
    assert stage.did == [1, "alone", True, (0, 3)]
    assert stage.is_standby


def test_who_found_nobody_at_the_start_and_is_not_needed_goes(monkeypatch):
    stage: Any = Stage(monkeypatch, "m2")
    recover.take_place(stage)
    assert stage.did == [1, "released"]
