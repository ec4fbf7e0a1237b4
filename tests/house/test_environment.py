"""Layers are named after their content, built whole or not at all, and built once."""

import tomllib
from pathlib import Path

import pytest

from tools import environment

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture
def calls(monkeypatch):
    """Stand-ins for the two slow steps: making a virtual environment and installing into it."""
    calls: list[str] = []

    def make_venv(command, hint):
        calls.append("venv")
        (Path(command[-1]) / environment.SITE).mkdir(parents=True, exist_ok=True)

    def install(venv, *arguments):
        calls.append("install")
        (venv / environment.SITE / "installed").touch()

    monkeypatch.setattr(environment, "run", make_venv)
    monkeypatch.setattr(environment, "pip", install)
    return calls


def folders(project, constraints="numpy==1", cache=Path("cache")):
    return {name: folder.name for name, folder in environment.layer_folders(project, constraints, cache).items()}


PINS = "numpy==1\n# train: torch\ntorch==2\n# adapters: trainers\ntransformers==5\n# frameworks: jax\njax==3\n"


def test_a_changed_pin_makes_a_new_layer_of_its_own_and_a_comment_does_not(project):
    before = folders(project, PINS)
    assert folders(project, PINS.replace("numpy==1", "numpy==1  # fine\n")) == before
    for changed, layer in (
        ("numpy==1", "base"),
        ("torch==2", "train"),
        ("transformers==5", "adapters"),
        ("jax==3", "frameworks"),
    ):
        after = folders(project, PINS.replace(changed, f"{changed}.9"))
        assert {name for name in after if after[name] != before[name]} == {layer}


def test_a_changed_base_leaves_torch_alone(project):
    before = folders(project)
    project["project"]["dependencies"].append("aiohttp")
    after = folders(project)
    assert after["base"] != before["base"]
    assert after["train"] == before["train"]


def test_a_changed_train_layer_leaves_the_base_alone(project):
    before = folders(project)
    project["dependency-groups"]["train"].append("lightning")
    after = folders(project)
    assert after["base"] == before["base"]
    assert after["train"] != before["train"]


def test_a_layer_is_built_once(tmp_path, calls):
    for _ in range(2):
        environment.build_layer("base", tmp_path / "layer", [], ["numpy"], tmp_path / "constraints.txt")
    assert calls == ["venv", "install"]
    assert (tmp_path / "layer" / environment.SITE / "installed").exists()


def test_a_build_killed_half_way_leaves_no_layer_and_the_next_one_starts_over(tmp_path, calls, monkeypatch):
    whole = environment.pip

    def killed(venv, *arguments):
        (venv / environment.SITE / "half").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(environment, "pip", killed)
    with pytest.raises(KeyboardInterrupt):
        environment.build_layer("base", tmp_path / "layer", [], ["numpy"], tmp_path / "constraints.txt")
    assert not (tmp_path / "layer").exists()

    monkeypatch.setattr(environment, "pip", whole)
    environment.build_layer("base", tmp_path / "layer", [], ["numpy"], tmp_path / "constraints.txt")
    assert sorted(file.name for file in (tmp_path / "layer" / environment.SITE).iterdir()) == ["installed"]


def test_an_upper_layer_sees_the_ones_below(tmp_path, calls):
    environment.build_layer("train", tmp_path / "upper", [tmp_path / "lower"], ["torch"], tmp_path / "constraints.txt")
    paths = (tmp_path / "upper" / environment.SITE / "layers.pth").read_text().splitlines()
    assert paths == [str(tmp_path / "lower" / environment.SITE)]


def test_a_script_runs_under_the_clones_interpreter(tmp_path):
    source, target = tmp_path / "pytest", tmp_path / "bin" / "pytest"
    target.parent.mkdir()
    source.write_text("#!/elsewhere/python\nimport pytest\n")
    environment.link_command(source, target)
    assert target.read_text() == f"#!{target.parent}/python\nimport pytest\n"


def test_every_requirement_is_pinned(project):
    pinned = {pin.partition("==")[0].lower() for pin in environment.pins((ROOT / "constraints.txt").read_text())}
    for layer in environment.ORDER:
        names = {name.partition(">")[0].lower() for name in environment.requirements(project, layer)}
        assert names <= pinned


def test_frameworks_stand_beside_the_clones_environment_on_the_base_alone(tmp_path, monkeypatch):
    """What a job brings must not change what we ourselves run with."""
    built: dict[str, list[Path]] = {}
    linked: list[list[Path]] = []
    monkeypatch.setattr(environment, "build_layer", lambda name, folder, below, *_: built.update({name: [*below]}))
    monkeypatch.setattr(environment, "link_clone", lambda root, layers: linked.append(layers))
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    (tmp_path / ".venv").mkdir()
    environment.prepare(tmp_path, tmp_path / "cache", list(environment.ORDER))
    base, train, adapters = linked[0]
    assert built == {"base": [], "train": [base], "adapters": [base, train], "frameworks": [base]}
    stamp = environment.read_stamp(tmp_path)["layers"]
    assert [stamp[name] for name in ("base", "train", "adapters")] == [str(base), str(train), str(adapters)]
    assert Path(stamp["frameworks"]).name.startswith("deps-frameworks-")
