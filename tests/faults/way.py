"""The way from the program to the server, and how a fault strikes it and is over again."""

import time
from collections.abc import Callable
from pathlib import Path

from harness.process import free_port
from harness.toxiproxy import Toxiproxy

from .cases import Fault
from .stores import Store


class Way:
    """A proxy before a server, on one port for its whole life."""

    def __init__(self, toxiproxy: Toxiproxy, store: Store, fault: Fault, meddle: Callable[[str], None] | None = None):
        """`meddle` is what another client does with the object."""
        self._toxiproxy = toxiproxy
        self._store = store
        self._fault = fault
        self._meddle = meddle
        self._listen = f"127.0.0.1:{free_port()}"
        self.struck: float | None = None
        self.mended: float | None = None
        self._starts_again = False
        self._open()
        if fault.at == 0:
            self.strike()

    @property
    def url(self) -> str:
        return self._proxy.url

    def _open(self):
        self._proxy = self._toxiproxy.proxy("way", self._store.address, self._listen)
        if self._fault.pace:
            for stream in ("upstream", "downstream"):
                self._proxy.toxic("bandwidth", stream, rate=self._fault.pace // 1000, name=f"pace {stream}")
        if self._fault.lag:
            self._proxy.toxic("latency", "downstream", latency=self._fault.lag, name="lag")

    def strike(self):
        fault = self._fault
        if fault.what == "kill":
            self._store.kill()
        elif fault.what == "cut":
            self._proxy.cut()
        elif fault.what in ("replace", "remove"):
            self._meddle(fault.what)
        elif fault.what == "knobs":
            self._store.set_faults(fault.rules)
        else:
            self._proxy.toxic(fault.toxic, fault.stream, fault.toxicity, **fault.attributes)
        self.struck = time.monotonic()

    def tend(self):
        """To be called again and again: ends the fault when its time has come."""
        fault = self._fault
        if self.struck is None or self.mended is not None or fault.lasts is None:
            return
        if time.monotonic() < self.struck + fault.lasts:
            return
        if fault.what == "kill":
            if not self._starts_again:
                self._store.start()
                self._starts_again = True
            if not self._store.is_ready():
                return
        elif fault.what == "cut":
            self._proxy.mend()
        elif fault.what == "knobs":
            self._store.set_faults(())
        else:
            # A new proxy in the old one's place. (Toxiproxy 2.12 may hang when a toxic is removed from connections.)
            self._proxy.close()
            self._open()
        self.mended = time.monotonic()

    def could_abort(self, ended: float) -> bool:
        """Whether an abort can have reached the server before the program ended."""
        return not self._fault.blocks_aborts or self._was_clear(ended)

    def could_know(self, ended: float) -> bool:
        """Whether its answer can have come."""
        return not self._fault.hides_aborts or self._was_clear(ended)

    @property
    def has_killed(self) -> bool:
        return self._fault.what == "kill" and self.struck is not None

    def _was_clear(self, ended: float) -> bool:
        """Not so for what was tried just before the end of the fault: the program needs a moment to end."""
        if self.struck is None:
            return True
        return self.mended is not None and ended - self.mended > 2

    def close(self):
        """Ends every connection, with what is still on its way, and sees to it that the server runs."""
        self._proxy.close()
        if self._fault.what == "knobs":
            self._store.set_faults(())
        if self.has_killed and self.mended is None and not self._starts_again:
            self._store.start()
            self._starts_again = True


def open_toxiproxy(folder: Path) -> Toxiproxy:
    folder.mkdir(parents=True, exist_ok=True)
    return Toxiproxy(folder)
