"""A proxy that passes connections on (CONNECT) to who gives the right name and password."""

import base64
import contextlib
import socket
import socketserver
import threading

USER, PASSWORD = "someone", "p@ss"


class _Connection(socketserver.StreamRequestHandler):
    def handle(self):
        method, address, _ = self.rfile.readline().decode().split(" ")
        lines = iter(lambda: self.rfile.readline().decode().strip(), "")
        head = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        wanted = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if head.get("proxy-authorization") != f"Basic {wanted}":
            self.wfile.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            return
        self.server.asked.append((method, address))
        host, port = address.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as far:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=_copy, args=(far, self.connection))
            back.start()
            _copy(self.connection, far)
            back.join()


def _copy(source, target):
    # Either side may hang up as it likes.
    with contextlib.suppress(OSError):
        while piece := source.recv(1 << 16):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)


class ForwardProxy(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Connection)
        self.asked = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self):
        return f"127.0.0.1:{self.server_address[1]}"

    @property
    def url(self):
        """With its name and password, as they are written in an address."""
        return f"http://{USER}:p%40ss@{self.address}"
