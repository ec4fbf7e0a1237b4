"""The page as a visitor meets it: over HTTP, or in a tab of a real browser."""

import contextlib
import http.client
import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from tests.local.stage import Box

CHROMIUM = "chromium"
PATIENCE_MS = 60_000


class Answer:
    """What came back."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.text = response.read().decode()

    @property
    def data(self) -> Any:
        return json.loads(self.text)


class Port:
    """The open page of a box."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.open()

    def open(self, **asked: Any) -> None:
        self.address = str(self.box.client.post("/v1/serve", asked)["said"])
        self.token = self.box.home.token.read_text().strip()
        self.number = urlsplit(self.address).port or 0

    @property
    def link(self) -> str:
        return f"{self.address}#token={self.token}"

    def ask(self, method: str, path: str, body: Any = None, token: bool = False, **headers: str) -> Answer:
        """One request; `_` in the name of a header stands for `-`."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            sent["Authorization"] = f"Bearer {self.token}"
        data = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else None
        connection = http.client.HTTPConnection("127.0.0.1", self.number, timeout=30)
        try:
            # A server that refuses a body answers before it has all of it.
            with contextlib.suppress(BrokenPipeError):
                connection.request(method, path, data, sent)
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def ask_or_none(self, method: str, path: str) -> Answer | None:
        """The same; nothing where the connection is refused."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.ask(method, path)
        return None


class Tab:
    """A tab. Errors and complaints of the browser are kept, and looked at when it is closed."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.errors: list[str] = []
        self.excused: tuple[str, ...] = ()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", self._unwanted)
        page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)

    def _unwanted(self, dialog: Any) -> None:
        self.errors.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    @classmethod
    @contextlib.contextmanager
    def opened(cls, browser: Any, link: str, **options: Any) -> Iterator["Tab"]:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 860}, **options})
        tab = cls(context.new_page())
        try:
            tab.visit(link)
            yield tab
            left = [error for error in tab.errors if not any(word in error for word in tab.excused)]
            assert not left, left
        finally:
            context.close()

    def visit(self, link: str) -> None:
        self.page.goto(link)
        assert self.has("#live.live")

    def go(self, path: str) -> None:
        """Follow a link of the page, as a click would."""
        self.page.evaluate(
            "path => { const link = document.createElement('a'); link.href = path;"
            " document.body.append(link); link.click(); link.remove(); }",
            path,
        )

    def sees(self, words: str, within: str = "main") -> bool:
        """Whether the words are there, or come in time."""
        return self._comes(self.page.locator(within).get_by_text(words).first.wait_for)

    def has(self, selector: str) -> bool:
        """Whether there is such a thing to be seen, or comes in time."""
        return self._comes(lambda: self.page.wait_for_selector(selector))

    def has_lost(self, selector: str) -> bool:
        """Whether there is no such thing, or none is left in time."""
        return self._comes(lambda: self.page.wait_for_selector(selector, state="detached"))

    def is_at(self, place: Any) -> bool:
        """Whether the address is of this kind, or becomes so in time."""
        return self._comes(lambda: self.page.wait_for_url(place))

    def _comes(self, wait: Callable[[], object]) -> bool:
        from playwright.sync_api import TimeoutError as TooLate

        try:
            wait()
        except TooLate:
            return False
        return True
