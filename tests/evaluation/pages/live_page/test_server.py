"""The server: for this machine only, nothing but the page and its events, and no thread is left."""

import http.client
import json
import socket
import threading
from time import sleep

import pytest

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.pages.live_page.server import HOST, policy, serving
from trainwreck.evaluation.pages.live_page.stream import Stream

PAGE = "<!doctype html><title>page</title><script>1</script>"
PATIENCE = 60  # seconds, for what is there at once


@pytest.fixture
def stream():
    return Stream()


@pytest.fixture
def port(stream):
    with serving(PAGE, stream) as address:
        yield int(address.rsplit(":", 1)[1].strip("/"))


def ask(port, path="/", method="GET", **headers):
    connection = http.client.HTTPConnection(HOST, port, timeout=PATIENCE)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer, content


def raw(port, text):
    with socket.create_connection((HOST, port), timeout=PATIENCE) as connection:
        connection.sendall(text)
        return b"".join(iter(lambda: connection.recv(4096), b""))


def test_the_page(port):
    answer, content = ask(port)
    assert (answer.status, content.decode()) == (200, PAGE)
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Security-Policy"] == policy(PAGE)
    assert answer.headers["Access-Control-Allow-Origin"] is None
    assert "Python" not in answer.headers["Server"]


def test_the_policy_allows_the_page_s_own_scripts_and_no_others():
    own = "'sha256-a4ayc/80/OGda4BO/1o/V0etpOqiLx1JwB5S3beHW0s='"  # of "1"
    assert f"script-src {own};" in policy(PAGE)
    assert "default-src 'none'" in policy(PAGE)
    assert "script-src 'none'" in policy("<p>no script</p>")


def test_the_events(port, stream):
    stream.add({"loss": ["nan", 1.5]})
    answer, content = ask(port, "/events?since=0")
    assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-store"
    assert json.loads(content) == {"id": stream.id, "next": 1, "events": [{"loss": ["nan", 1.5]}]}
    assert json.loads(ask(port, "/events")[1])["next"] == 1


@pytest.mark.parametrize("since", ["-1", "1.5", "x", "1" * 30, "%00"])
def test_a_place_that_is_none(since, port):
    answer, content = ask(port, f"/events?since={since}")
    assert answer.status == 400
    assert since.encode() not in content


@pytest.mark.parametrize("path", ["/events/", "/index.html", "/../pyproject.toml", "/%2e%2e/etc/passwd"])
def test_nothing_else_is_there(path, port):
    answer, content = ask(port, path)
    assert (answer.status, content) == (404, b"not found\n")
    assert answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_but_get(method, port):
    answer, _ = ask(port, method=method)
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET"


@pytest.mark.parametrize("path", ["/", "/events?since=0", "/other"])
@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil"])
def test_another_host_is_refused(host, path, port):
    answer, content = ask(port, path, Host=host.format(port=port))
    assert answer.status == 403
    assert PAGE.encode() not in content


def test_no_host_and_two_are_refused(port):
    own = f"Host: {HOST}:{port}\r\n".encode()
    assert b" 200 " in raw(port, b"GET / HTTP/1.1\r\n" + own + b"\r\n").splitlines()[0]
    assert b" 403 " in raw(port, b"GET / HTTP/1.1\r\n\r\n").splitlines()[0]
    assert b" 403 " in raw(port, b"GET / HTTP/1.1\r\n" + 2 * own + b"\r\n").splitlines()[0]


def test_a_target_that_is_no_address(port, capfd):
    assert b" 404 " in raw(port, f"GET http://[ HTTP/1.1\r\nHost: {HOST}:{port}\r\n\r\n".encode()).splitlines()[0]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LocalHost"])
def test_its_own_names_are_allowed(name, port):
    assert ask(port, Host=f"{name}:{port}")[0].status == 200


def test_it_listens_on_this_machine_s_own_address_only(monkeypatch, stream):
    bound = []
    bind = socket.socket.bind
    monkeypatch.setattr(socket.socket, "bind", lambda own, where: (bound.append(where), bind(own, where))[1])
    with serving(PAGE, stream):
        assert bound == [("127.0.0.1", 0)]


def test_a_reader_waits_and_a_writer_does_not_wait_for_it(port, stream):
    found = []
    readers = [threading.Thread(target=lambda: found.append(ask(port, "/events?since=0")[1])) for _ in range(3)]
    for reader in readers:
        reader.start()
    stream.add({"number": 1})
    for reader in readers:
        reader.join(PATIENCE)
    assert [json.loads(content)["events"] for content in found] == [[{"number": 1}]] * 3


def test_a_reader_that_goes_away_is_nothing_to_talk_of(port, stream, capfd):
    gone = socket.create_connection((HOST, port), timeout=PATIENCE)
    gone.sendall(f"GET /events?since=0 HTTP/1.1\r\nHost: {HOST}:{port}\r\n\r\n".encode())
    gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset, not a farewell
    gone.close()
    stream.add({"text": "x" * 1_000_000})
    answer, content = ask(port, "/events?since=0")
    assert answer.status == 200
    assert len(content) > 1_000_000
    assert capfd.readouterr() == ("", "")


def test_no_thread_is_left_and_the_port_is_free_again(stream):
    before = set(threading.enumerate())
    found = []
    with serving(PAGE, stream) as address:
        port = int(address.rsplit(":", 1)[1].strip("/"))
        waiting = threading.Thread(target=lambda: found.append(ask(port, "/events?since=1")))
        silent = socket.create_connection((HOST, port), timeout=PATIENCE)  # as a browser opens ahead
        stream.add({"number": 0})
        waiting.start()
        for _ in range(100 * PATIENCE):
            if len(set(threading.enumerate()) - before) == 4:  # the server, the reader, and one for each connection
                break
            sleep(0.01)
        stream.add({"state": "interrupted"})
    waiting.join(PATIENCE)
    silent.close()
    assert json.loads(found[0][1])["events"] == [{"state": "interrupted"}]
    assert set(threading.enumerate()) == before
    with pytest.raises(ConnectionRefusedError):
        ask(port)
    with serving(PAGE, Stream(), port) as again:
        assert again == address


def test_a_port_that_is_taken(port):
    wanted = rf"^port: {port} is not allowed: [^;\n]+; allowed: 0 for any free one, or up to 65535$"
    with pytest.raises(InputError, match=wanted), serving(PAGE, Stream(), port):
        pass


@pytest.mark.parametrize("number", [-1, 65536])
def test_a_port_that_is_none(number):
    with pytest.raises(InputError, match=f"^port: {number} is not allowed"), serving(PAGE, Stream(), number):
        pass


def test_a_port_that_is_not_permitted(monkeypatch):
    def bind(self, where):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", bind)
    with pytest.raises(InputError, match="port: 80 is not allowed: Permission denied"), serving(PAGE, Stream(), 80):
        pass
