"""Who may ask what through the port. A page in a browser is a shell for whoever can make that browser send requests.

Pages and files hold no data and are given to anybody. Reading needs the token, or a connection made by the daemon's
own user on this machine. Changing needs the token, whoever asks. There are no cookies: nothing is sent that the page
did not mean to send.
"""

import ipaddress
from collections.abc import Callable
from urllib.parse import urlsplit

from tutti.api.http import Request

from .peer import is_loopback

OPEN = frozenset({"/metrics"})
"""Figures with bounded labels: no job, no user, no device is named in them."""
HERE = frozenset({"localhost", "127.0.0.1", "::1"})


class Turned(Exception):
    """A request that is turned away."""

    def __init__(self, status: int, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.status, self.what, self.hint = status, what, hint


class Guard:
    """The rules of one port."""

    def __init__(self, owner: Callable[[str], int | None], host: str, names: tuple[str, ...] = ()) -> None:
        """`owner` knows whose token a text is."""
        self._owner = owner
        self._names = HERE | {name.lower() for name in names}
        self._anywhere = not is_loopback(host)

    def look(self, request: Request) -> None:
        """Turn away what no page of ours would send. Raises Turned."""
        if request.method not in {"GET", "POST"}:
            raise Turned(405, f"{request.method} is not spoken here", "GET or POST")
        asked = request.headers.get("host", "")
        if not self._is_ours(_host(asked)):
            raise Turned(421, "this name is not one of this page's", "the address that `tutti serve` printed")
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != asked.lower():
            raise Turned(403, "this request comes from a page of another site")
        if not _is_from_here(request):
            raise Turned(403, "this request comes from a page of another site")

    def may_read(self, request: Request, is_owner: bool) -> None:
        """Raises Turned."""
        if request.path not in OPEN and not self.has_token(request) and not is_owner:
            raise Turned(401, "reading needs the token here", "open the address that `tutti serve` prints")

    def may_change(self, request: Request) -> None:
        """Raises Turned."""
        if not self.has_token(request):
            raise Turned(401, "changing something needs the token", "open the address that `tutti serve` prints")

    def has_token(self, request: Request) -> bool:
        """Whether the request carries one."""
        return self.owner(request) is not None

    def owner(self, request: Request) -> int | None:
        """The user whose token a request carries."""
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        return self._owner(given.strip()) if kind.lower() == "bearer" and given.strip() else None

    def _is_ours(self, host: str) -> bool:
        return host in self._names or (self._anywhere and _is_number(host))


def _host(text: str) -> str:
    """The name in a Host header; the port may differ, where somebody forwards one."""
    return (urlsplit(f"//{text}").hostname or "").lower() if text and "/" not in text and "@" not in text else ""


def _is_number(host: str) -> bool:
    """An address in figures cannot be turned to another machine behind the browser's back; a name can."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_from_here(request: Request) -> bool:
    """What the browser says of where a request comes from. Following a link from elsewhere to a page is fine."""
    site = request.headers.get("sec-fetch-site", "none")
    visits = request.headers.get("sec-fetch-mode") == "navigate" and request.method == "GET"
    return site in {"none", "same-origin"} or (visits and not request.path.startswith(("/v1", "/page", "/plain")))
