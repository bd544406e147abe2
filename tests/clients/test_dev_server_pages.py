"""Web pages of other sites, in a real browser, cannot use the embedded server; idle clients cost it little."""

import contextlib
import http.server
import socket
import threading

import pytest

from harness.process import until

# Each way in which a page sends requests to another site without being asked first.
ATTACK = """<!doctype html><img src="URL/BUCKET/pixel"><script>
const simple = body => ({method: 'POST', mode: 'no-cors', body});
const sent = [
    fetch('URL/_tidegate/objects', simple('{"bucket": "BUCKET", "keys": ["planted"]}')),
    fetch('URL/upload/storage/v1/b/BUCKET/o?uploadType=media&name=planted', simple('owned')),
    fetch('URL/storage/v1/b/BUCKET/o', {mode: 'no-cors'}),
    fetch('URL/_tidegate/knobs', {method: 'PUT', headers: {'Content-Type': 'application/json'}, body: '{}'}),
];
Promise.allSettled(sent).then(() => {
    const form = document.createElement('form');
    [form.method, form.enctype, form.target] = ['POST', 'text/plain', 'frame'];
    form.action = 'URL/upload/storage/v1/b/BUCKET/o?uploadType=media&name=planted';
    document.body.innerHTML = '<iframe name=frame></iframe>';
    document.body.append(form);
    document.querySelector('iframe').addEventListener('load', () => { document.title = 'done'; });
    form.submit();
});
</script>"""


@pytest.fixture
def site():
    """Serves one page, `site.page`, at `site.url`."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(self.server.page.encode())

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as site:
        site.url = f"http://localhost:{site.server_address[1]}/"
        threading.Thread(target=site.serve_forever, daemon=True).start()
        yield site
        site.shutdown()


def test_a_page_of_another_site_changes_and_reads_nothing(server, s3, name, site, browser):
    site.page = ATTACK.replace("URL", server.url).replace("BUCKET", name)
    s3.put_object(Bucket=name, Key="pixel", Body=b"GIF89a")
    server.control("DELETE", "counts")
    page = browser.new_page()
    answers = []
    page.on("response", lambda answer: answers.append((answer.request.method, answer.url, answer.status)))
    page.goto(site.url)
    page.wait_for_function("document.title == 'done'", timeout=20_000)
    to_server = [(method, url, status) for method, url, status in answers if url.startswith(server.url)]
    assert len(to_server) >= 4 and all(status == 403 for _, _, status in to_server), to_server
    assert server.control("GET", "counts")["requests"].keys() <= {"Refused"}
    assert [found["Key"] for found in s3.list_objects_v2(Bucket=name)["Contents"]] == ["pixel"]
    page.close()


def test_a_name_that_was_rebound_is_refused(server, s3, name, browser):
    port = server.url.rsplit(":", 1)[1]
    page = browser.new_page()
    # As after DNS rebinding: the name of another site leads to this machine. The names below `localhost` are its own.
    answer = page.request.get(f"{server.url}/storage/v1/b", headers={"Host": f"evil.example:{port}"})
    assert answer.status == 403
    page.close()


def test_five_hundred_idle_connections_cost_little(server, s3, name):
    def resident():
        with open(f"/proc/{server.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    before = resident()
    server.control("DELETE", "counts")
    with contextlib.ExitStack() as stack:
        for number in range(500):
            idle = stack.enter_context(socket.create_connection(server.url.removeprefix("http://").split(":")))
            if number % 2:
                idle.sendall(b"GET /storage/v1/b HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        until("500 connections are accepted", lambda: server.control("GET", "counts")["connections"] >= 500)
        s3.put_object(Bucket=name, Key="k", Body=b"still served")
        grown = resident() - before
        print(f"500 idle connections: {grown} KiB")
        assert grown < 32 << 10, f"{grown} KiB"
