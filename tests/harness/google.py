"""Google Cloud Storage over HTTP and over gRPC: the same requests by other names."""

# Over HTTP, and over gRPC. A write is an object's own or one of a session; a stream that is held open is another call.
CALLS = [
    ("storage.objects.insert", "storage.v2.WriteObject"),
    ("storage.resumable.append", "storage.v2.WriteObject"),
    ("storage.resumable.append", "storage.v2.BidiWriteObject"),
    ("storage.resumable.start", "storage.v2.StartResumableWrite"),
    ("storage.resumable.query", "storage.v2.QueryWriteStatus"),
    ("storage.resumable.cancel", "storage.v2.CancelResumableWrite"),
]


class Counts:
    """What was asked, in HTTP's words whatever it went over."""

    def __init__(self, counts):
        self._counts, self.reset = counts, counts.reset

    def __call__(self):
        asked = dict(self._counts())
        # A write before any session was opened is an object's own.
        other = "insert" if "storage.v2.StartResumableWrite" in asked else "append"
        for http, grpc in CALLS:
            if grpc in asked and not (grpc == "storage.v2.WriteObject" and http.endswith(other)):
                asked[http] = asked.get(http, 0) + asked.pop(grpc)
        return asked


def over_either(faults):
    """Rules that name HTTP's requests, for those and what they are over gRPC: each counts both."""

    def names(fault):
        return [fault["operation"], *(grpc for http, grpc in CALLS if http == fault["operation"])]

    return [{**fault, "operation": "|".join(names(fault))} for fault in faults]


class Over:
    """The command line, with what it goes over."""

    def __init__(self, tidegate, over):
        self._tidegate, self._option = tidegate, ("--gcs-transport", over)

    def __call__(self, *arguments, **settings):
        return self._tidegate(*arguments, *self._option, **settings)

    def start(self, *arguments, **settings):
        return self._tidegate.start(*arguments, *self._option, **settings)
