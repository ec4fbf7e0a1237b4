"""What comes in through the port, and what does not."""

import os
import re
import socket
from pathlib import Path

import pytest

from tests.local.stage import until
from tutti.api.http import Request
from tutti.api.routes import ROUTES
from tutti.web.files import shelf
from tutti.web.guard import Guard, Turned
from tutti.web.peer import peer_uid
from tutti.web.token import read_token, token_of

CHANGING = sorted({(route.method, route.path) for route in ROUTES if route.changes} | {("POST", "/page/jobs")})
READING = sorted(route.path for route in ROUTES if not route.changes and route.path != "/metrics")


def filled(path: str) -> str:
    return path.replace("{name}", "nobody").replace("{id}", "n0:0").replace("{verb}", "drain")


# -- the token


def test_the_token_is_a_file_that_only_its_owner_can_read(port):
    assert port.box.home.token.stat().st_mode & 0o777 == 0o600
    assert len(port.token) > 40


def test_a_token_that_others_could_have_read_is_replaced(tmp_path):
    file = tmp_path / "token"
    first = token_of(file)
    assert token_of(file) == first
    file.chmod(0o644)
    assert read_token(file) == ""
    assert token_of(file) != first
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_token_behind_a_link_is_not_used(tmp_path):
    (tmp_path / "theirs").write_text("known")
    (tmp_path / "token").symlink_to(tmp_path / "theirs")
    assert token_of(tmp_path / "token") != "known"
    assert (tmp_path / "theirs").read_text() == "known"


def test_a_new_token_ends_the_old_one(port):
    old = port.token
    port.open(fresh=True)
    assert port.token != old
    assert port.ask("POST", "/v1/config/reload", {}, Authorization=f"Bearer {old}").status == 401
    assert port.ask("POST", "/v1/config/reload", {}, token=True).status == 200


@pytest.mark.parametrize(("method", "path"), CHANGING)
def test_changing_anything_needs_the_token(port, method, path):
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": port.token}, {"Cookie": port.token}):
        answer = port.ask(method, filled(path), {}, **headers)
        assert answer.status == 401, headers
        assert "token" in answer.data["error"]


def test_the_token_is_neither_in_the_status_nor_in_the_audit(port):
    for path in ("/v1/status", "/v1/audit", "/page/hello", "/v1/config", "/"):
        assert port.token not in port.ask("GET", path, token=True).text


def test_nothing_changes_by_a_get(port):
    name = port.box.submit("sleep", "60", held=True).name
    for verb in ("cancel", "release", "hold", "retry"):
        assert port.ask("GET", f"/v1/jobs/{name}/{verb}", token=True).status == 404
    assert port.ask("GET", "/v1/stop", token=True).status == 404
    assert port.box.state(name) == "held"
    port.box.client.post(f"/v1/jobs/{name}/cancel")


# -- who reads


def test_the_owner_reads_without_the_token_on_this_machine(port):
    assert port.ask("GET", "/v1/jobs").data["jobs"] == []


def asked_as(uid: int, port, *paths: str) -> list[str]:
    """What another user of this machine is answered."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setuid(uid)
        os.write(writer, " ".join(str(port.ask("GET", path).status) for path in paths).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as told:
        found = told.read().split()
    os.waitpid(child, 0)
    return found


@pytest.mark.skipif(os.getuid() != 0, reason="only root can ask as somebody else")
def test_another_user_of_this_machine_reads_nothing_but_metrics(port):
    assert asked_as(65534, port, "/v1/jobs", "/page/hello", "/metrics", "/") == ["401", "401", "200", "200"]


@pytest.mark.parametrize("path", READING)
def test_somebody_else_reads_nothing(path):
    guard = Guard({"secret": 0}.get, "127.0.0.1")
    with pytest.raises(Turned) as turned:
        guard.may_read(Request(method="GET", path=path), False)
    assert turned.value.status == 401
    guard.may_read(Request(method="GET", path=path, headers={"authorization": "Bearer secret"}), False)


def test_the_kernel_knows_who_made_a_connection():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as ours:
        theirs, _ = server.accept()
        with theirs:
            assert peer_uid(theirs.getpeername(), theirs.getsockname()) == os.getuid()
            assert peer_uid(("127.0.0.1", 1), ours.getsockname()) == -1
    assert peer_uid(("10.0.0.1", 1), ("127.0.0.1", 2)) == -1


def test_a_machine_without_that_table_knows_nobody(tmp_path):
    assert peer_uid(("127.0.0.1", 1), ("127.0.0.1", 2), {4: tmp_path / "none"}) == -1


# -- where requests come from


def test_it_listens_on_this_machine_alone(port):
    assert port.address.startswith("http://127.0.0.1:")
    listening = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    assert f"0100007F:{port.number:04X}" in listening
    assert f"00000000:{port.number:04X}" not in listening


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", "", "evil@127.0.0.1"])
def test_another_name_is_turned_away(port, host):
    for method, path in (("GET", "/"), ("GET", "/v1/jobs"), ("POST", "/v1/stop")):
        assert port.ask(method, path, token=True, Host=host).status == 421


def test_its_own_names_are_taken_through_any_forwarded_port(port):
    for host in (f"127.0.0.1:{port.number}", "localhost:1234", "LOCALHOST", "[::1]:80"):
        assert port.ask("GET", "/v1/jobs", Host=host).status == 200


def test_a_name_that_was_given_is_taken():
    guard = Guard({"secret": 0}.get, "0.0.0.0", ("Box.Lab",))
    for host in ("box.lab:80", "10.1.2.3:80", "[fd00::1]:80"):
        guard.look(Request(method="GET", path="/", headers={"host": host}))
    with pytest.raises(Turned):
        guard.look(Request(method="GET", path="/", headers={"host": "other.lab"}))


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", ""])
def test_a_page_of_another_site_is_turned_away_even_with_the_token(port, origin):
    job = {"job": {"command": "true", "name": "theirs"}}
    assert port.ask("POST", "/page/jobs", job, token=True, Origin=origin).status == 403
    assert port.ask("GET", "/v1/jobs", token=True, Origin=origin).status == 403
    assert port.ask("GET", "/v1/jobs/theirs").status == 404


def test_what_the_browser_says_of_a_request_counts(port):
    site = {"Sec_Fetch_Site": "cross-site"}
    assert port.ask("GET", "/v1/jobs", **site).status == 403
    assert port.ask("GET", "/v1/jobs", **site, Sec_Fetch_Mode="navigate").status == 403
    assert port.ask("GET", "/", **site, Sec_Fetch_Mode="navigate").status == 200
    assert port.ask("POST", "/v1/stop", {}, token=True, **site, Sec_Fetch_Mode="navigate").status == 403
    own = f"http://127.0.0.1:{port.number}"
    assert port.ask("GET", "/v1/jobs", Sec_Fetch_Site="same-origin", Origin=own).status == 200


# -- what is sent back


@pytest.mark.parametrize("path", ["/", "/jobs/any", "/static/app.js", "/v1/jobs", "/nothing", "/v1/nothing"])
def test_every_answer_carries_the_policy(port, path):
    headers = port.ask("GET", path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "set-cookie" not in headers
    assert "access-control-allow-origin" not in headers


def test_no_file_needs_what_the_policy_forbids():
    assert len(shelf()) > 15
    for name, file in shelf().items():
        text = file.body.decode()
        assert not re.search(r"https?://(?!www\.w3\.org/)", text), f"{name} fetches from elsewhere"
        if name.endswith(".html"):
            assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\son\w+=", text), name
        if name.endswith(".js"):
            assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)


@pytest.mark.parametrize(
    "path",
    [
        "/static/../token",
        "/static/%2e%2e/token",
        "/static/%2e%2e%2ftoken",
        "/static/..%5c..%5ctoken",
        "//etc/passwd",
        "/static//etc/passwd",
        "/static/",
        "/token",
        "/journal.db",
        "/v1/jobs/..%2f..%2f..%2fetc%2fpasswd/logs",
        "/v1/jobs/%2fetc%2fpasswd/logs?rank=../../token",
    ],
)
def test_no_path_leads_out(port, path):
    answer = port.ask("GET", path, token=True)
    assert answer.status in {400, 404}
    assert port.token not in answer.text
    assert "root:" not in answer.text


def test_errors_are_pages_for_people_and_json_for_programs(port):
    page = port.ask("GET", "/<script>alert(1)</script>", Accept="text/html,*/*")
    assert (page.status, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "<script>alert" not in page.text
    assert "&lt;script&gt;" in page.text
    assert port.ask("GET", "/nothing").data["schema"] == "tutti/v1"


def test_other_methods_and_large_bodies_are_refused(port):
    assert port.ask("PUT", "/v1/jobs", {}, token=True).status == 405
    assert port.ask("DELETE", "/v1/jobs/a", token=True).status == 405
    assert port.ask("POST", "/page/jobs", b" " * ((1 << 20) + 1), token=True).status == 413


def test_files_are_sent_once(port):
    mark = port.ask("GET", "/static/app.js").headers["etag"]
    again = port.ask("GET", "/static/app.js", If_None_Match=mark)
    assert (again.status, again.text) == (304, "")


# -- the port


def test_the_page_is_there_again_after_the_daemon_was_killed(port):
    before = (port.address, port.token)
    port.box.kill()
    port.box.start()
    until(lambda: port.box.client.get("/v1/status")["page"], "the page")
    assert port.ask("GET", "/v1/status").data["page"] == before[0]
    assert port.ask("POST", "/v1/config/reload", {}, token=True).status == 200


def test_it_can_be_closed_moved_and_opened_again(port):
    port.box.client.post("/v1/serve", {"close": True})
    with pytest.raises(ConnectionRefusedError):
        port.ask("GET", "/")
    assert not (port.box.path / "page.json").exists()
    port.open()
    first = port.number
    with socket.create_server(("127.0.0.1", 0)) as taken:
        other = taken.getsockname()[1]
        with pytest.raises(Exception, match="is taken"):
            port.box.client.post("/v1/serve", {"port": other})
    assert port.ask("GET", "/").status == 200
    port.open(port=other)
    assert (port.number, first != other) == (other, True)
    assert port.ask("GET", "/").status == 200


@pytest.mark.parametrize("asked", [{"port": 70000}, {"port": "many"}, {"hots": "0.0.0.0"}])
def test_a_page_that_cannot_be_opened_is_a_clear_error(port, asked):
    with pytest.raises(Exception, match=r"there is no port|not how to open"):
        port.box.client.post("/v1/serve", asked)
    assert port.ask("GET", "/").status == 200
