"""Whom a command asks: the daemon of this box, or (with --kube) a Kubernetes cluster."""

from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tutti.errors import Misused

if TYPE_CHECKING:
    from tutti.api.client import Client
    from tutti.kube.ask import Asking

F = TypeVar("F", bound=Callable[..., Any])

CLUSTER = (
    click.option("--kubeconfig", metavar="FILE", default=None, help="How to reach the cluster; a pod knows by itself."),
    click.option("--context", metavar="NAME", default=None, help="A context of that file."),
    click.option(
        "--config",
        "settings",
        metavar="FILE",
        default=None,
        help="Settings of its scheduler, in TOML, instead of those in the cluster.",
    ),
)


def of_cluster(command: F) -> F:
    """Options that say which cluster."""
    for option in reversed(CLUSTER):
        command = option(command)
    return command


def also_kube(command: F) -> F:
    """A command of the box that a cluster can answer as well."""
    flag = click.option("--kube", is_flag=True, help="Ask a Kubernetes cluster instead of this box.")
    return flag(of_cluster(command))


def whom(kube: bool, kubeconfig: str | None, context: str | None, settings: str | None) -> "Client | Asking":
    """The client; options of a cluster mean a cluster."""
    if not (kube or kubeconfig or context or settings):
        from tutti.api.client import Client  # noqa: PLC0415 - not needed for --help

        return Client()
    from tutti.kube import config, credentials  # noqa: PLC0415
    from tutti.kube.ask import Asking  # noqa: PLC0415

    return Asking(credentials.find(kubeconfig, context), config.read(settings) if settings else None)


def only_kube(command: click.Command) -> click.Command:
    """The same command below `tutti kube`, where the cluster goes without saying and a namespace may be named."""
    asked = command.callback
    assert asked is not None

    def callback(**given: Any) -> Any:
        namespace = given.pop("namespace", None)
        return asked(**(given if namespace is None else _inside(namespace, given)), kube=True)

    params = [_shared(param) for param in command.params if param.name != "kube"]
    if not {"user", "name"}.isdisjoint(param.name for param in params):
        params.append(click.Option(["-n", "--namespace"], metavar="NAME", help="Gangs of this namespace."))
    return click.Command(
        command.name, callback=callback, params=params, help=command.help, short_help=command.short_help
    )


def _shared(param: click.Parameter) -> click.Parameter:
    """An option without `-n`, which is the namespace wherever a cluster is asked."""
    if "-n" not in param.opts:
        return param
    other = copy(param)
    other.opts = [word for word in param.opts if word != "-n"]
    return other


def _inside(namespace: str, given: dict[str, Any]) -> dict[str, Any]:
    """The same question about one namespace: whose gangs are listed, or whose gang a name is."""
    if "user" in given:
        return {**given, "user": namespace}
    if not given["name"]:
        raise Misused("-n says whose gang a name is, and no gang is named.", hint="-n NAMESPACE NAME, or leave out -n")
    own = "/" in given["name"]
    return given if own else {**given, "name": f"{namespace}/{given['name']}"}
