"""A proxy in front of a server of S3, in which a test has its say over each request."""

import http.client
import threading
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@contextmanager
def between(url, meets):
    """The URL of a proxy to the server at `url`. `meets(request)` is called with each request before it is passed on, and
    may wait; a status and a body that it returns are the answer, and the request is not passed on."""
    behind = urlsplit(url).netloc

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            own = meets(self)
            if own is not None:
                self.reply(own[0], [("content-type", "application/xml")], own[1])
                return
            # Closed also where the client has gone: a socket that is left open fails whichever test runs when Python finds it.
            with closing(http.client.HTTPConnection(behind, timeout=60)) as connection:
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

        def reply(self, status, headers, body):
            self.send_response_only(status)
            names = {name.lower() for name, _ in headers}
            for name, value in headers:
                if name.lower() != "transfer-encoding":
                    self.send_header(name, value)
            if "content-length" not in names:
                self.send_header("content-length", str(len(body)))
            self.end_headers()
            try:
                self.wfile.write(body)
            except ConnectionError:
                pass  # The client has gone.

        def log_message(self, *said):
            pass

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request, client_address):
            pass  # A client that was killed.

    server = Server(("127.0.0.1", 0), Proxy)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def without_copies(url):
    """The URL of the server at `url`, which makes no copies there, with the list of the copies that it was asked for."""
    refused = []

    def meets(request):
        if "x-amz-copy-source" not in request.headers:
            return None
        refused.append(request.path)
        return 501, b"<Error><Code>NotImplemented</Code><Message>no copies are made here</Message></Error>"

    with between(url, meets) as proxy:
        yield proxy, refused
