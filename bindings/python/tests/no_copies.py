"""A server of S3 that makes no copies: another one behind a proxy that refuses them."""

import http.client
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_REFUSED = b"<Error><Code>NotImplemented</Code><Message>no copies are made here</Message></Error>"


@contextmanager
def without_copies(url):
    """The URL of the server at `url` without copies, with the list of the methods and paths that were asked there."""
    behind = urlsplit(url).netloc
    asked = []

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            asked.append((self.command, self.path.partition("?")[0]))
            if "x-amz-copy-source" in self.headers:
                asked.append(("COPY", self.path))
                self.reply(501, [("content-type", "application/xml")], _REFUSED)
                return
            connection = http.client.HTTPConnection(behind, timeout=60)
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            response = connection.getresponse()
            said = response.read()
            kept = [
                (name, value) for name, value in response.getheaders() if name.lower() not in ("connection", "date")
            ]
            self.reply(response.status, kept, said)
            connection.close()

        def reply(self, status, headers, body):
            self.send_response_only(status)
            names = {name.lower() for name, _ in headers}
            for name, value in headers:
                if name.lower() != "transfer-encoding":
                    self.send_header(name, value)
            if "content-length" not in names:
                self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *said):
            pass

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer

    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
