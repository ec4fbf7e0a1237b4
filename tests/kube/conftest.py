"""One control plane per test session; every test gets it empty, and a scheduler of its own when it asks for one."""

import asyncio

import pytest

from tests.kube.play import Play
from tools.control_plane import rig
from tools.control_plane.build import Impossible


@pytest.fixture(scope="session")
def control_plane():
    """etcd and kube-apiserver on loopback, with TLS, tokens and RBAC on."""
    try:
        made = rig.started()
    except Impossible as problem:
        pytest.skip(f"no control plane: {problem}")
    try:
        asyncio.run(Play.prepare(made))
        yield made
    finally:
        made.close()


@pytest.fixture
def play(control_plane):
    """A function that plays a coroutine function against the empty cluster."""

    def run(scene, **settings):
        asyncio.run(Play.perform(control_plane, scene, **settings))

    return run
