"""Figures as `tidegate-bench … --json` prints them: of every kind a file, with as much in it as a real one has."""

import json
import math

MIB = 1 << 20
CONDITIONS = {
    "machine": {"cores": 2, "cpu": "Intel(R) Xeon(R) Processor", "kernel": "Linux 6.18.44", "memory_gib": 24},
    "load": [0.65, 1.35],
}


def usage(wall, peak_mib=20.0, cpu=0.6):
    return {
        "wall": wall,
        "user": cpu * 0.7,
        "system": cpu * 0.3,
        "peak_kib": int(peak_mib * 1024),
        "exit": 0,
        "signal": None,
    }


def spread(values):
    values = sorted(values)
    return {"median": values[len(values) // 2], "min": values[0], "max": values[-1]}


def contest(title, tools, objects=1, size=1024 * MIB):
    def line(name, wall, cpu, peak, requests):
        around = [0.94, 1.0, 1.15]
        return {
            "tool": name, "version": "1.2.3", "settings": f"`{name} cp FILE URL`, defaults (parts of 16 MiB, 4 at once)",
            "wall": spread([wall * part for part in around]), "cpu": spread([cpu * part for part in around]),
            "peak_mib": spread([peak]), "requests": spread([requests]), "connections": spread([6, 8, 12]),
            "server_cpu": spread([0.2]), "checksums": ["CRC64NVME"], "refused": {"HeadObject": 3},
            "runs": [{}] * (1 if name == "rclone" else 5),
        }  # fmt: skip

    return CONDITIONS | {
        "title": title,
        "objects": objects,
        "bytes": objects * size,
        "runs": 5,
        "source": "source: random bytes in /dev/shm (tmpfs)",
        "nothing": usage(0.0019, 2.8, 0.0019),
        "tools": [line(*tool) for tool in tools],
        "failed": [["a tool of yesterday", "it took longer than 300 s"]],
        "missing": [["a tool of tomorrow", "scripts/install tomorrow"]],
        "command": "tidegate-bench peers --only upload --runs 5",
        "losses": ["tidegate loses to s5cmd in peak memory: 1.32 times as much"],
    }


def parts(table, rows, ways):
    def line(size, part, streams, published, first):
        speeds = {
            "plain": 1.0,
            "one_by_one": 1.1,
            "at_once": published / 100,
            "auto": published / 95,
            "cold": published / 100,
        }
        done = [{"way": way, "seconds": [first / speeds[way] * by for by in (1.0, 1.02, 0.99)]} for way in ways]
        return {"size": size, "part": part, "streams": streams, "published": published, "done": done}

    trial = {"table": table, "unshaped": False, "to": None, "runs": 3, "quick": False}
    shape = {"latency": {"fixed_ms": 28.2}, "bandwidth": {"stream_in": 194 * MIB, "total_in": 415 * MIB}}
    return CONDITIONS | {"trial": trial, "shape": shape, "lines": [line(*row) for row in rows]}


def journal():
    ways = {
        "chunked, 16 MiB": 78.0, "chunked, 64 MiB": 100.0, "spool": 403.0, "parallel": 657.0, "journal": 125.6,
        "journal, gRPC": 125.3, "(bare stream)": 127.0, "Java: chunked, 16 MiB": 74.6, "Java: journaling": 119.4,
    }  # fmt: skip
    lines = []
    for streams in (1, 2, 4, 8, 16, 32):
        scale = max(1.0, streams / 2)
        for way, rate in ways.items():
            rate = max(rate / max(1.0, streams / 8), 60.0) if rate > 200 else rate
            speeds = [rate * (1 + 0.04 * math.sin(7 * number + streams)) for number in range(streams)]
            sizes = [(1024 + 32 * number) * MIB for number in range(streams)]
            seconds = [size / MIB / speed * scale for size, speed in zip(sizes, speeds, strict=True)]
            run = {"sizes": sizes, "seconds": seconds, "usage": usage(9.0), "disk": 760 * MIB}
            published = {"journal": 125.8, "chunked, 16 MiB": 80.2, "chunked, 64 MiB": 101.0}.get(way)
            lines.append({"way": way, "streams": streams, "scale": scale, "published": published, "runs": [run]})
    trial = {
        "streams": [1, 2, 4, 8, 16, 32], "size": 1024 * MIB, "largest": 2048 * MIB, "stream_mib": 128, "commit_ms": 54, "producer_mib": 800,
        "most_mib": 256, "runs": 1, "only": [], "scratch": None, "limit": 1200,
    }  # fmt: skip
    failed = ["Java: journaling, 32 at once, run 1"]
    return CONDITIONS | {"trial": trial, "lines": lines, "missing": [], "failed": failed}


def tables(name, xs, ways):
    lines = [{"way": way, name: x, "runs": [{"usage": usage(*of(x))}] * 3} for x in xs for way, of in ways.items()]
    return CONDITIONS | {"trial": {"memory": 64 * MIB, "runs": 3, "quick": False}, "lines": lines}


def prefixes():
    lines = []
    for kind, limit in (("writes", 17.5), ("reads", 27.5)):
        for count in (None, 1, 2, 4, 8, 16, 32, 64, 128):
            most = limit * (count or 1)
            pace = {"per_second": most * (1.01 - 0.001 * (count or 0)), "refused": 3}
            lines.append({"prefixes": count, "kind": kind, "limit": most, "pace": pace})
    return CONDITIONS | {"trial": {"scale": 200.0, "most": 128, "quick": False}, "lines": lines}


def memory():
    seconds = [number / 10 for number in range(0, 1200)]
    series = {
        "tidegate, 64 MiB of budget": lambda second: 53 - 40 * math.exp(-second),
        "a reader that holds all of it": lambda second: min(5120.0, 20 + 150 * second) / 8,
    }
    series = [{"name": name, "points": [[second, of(second)] for second in seconds]} for name, of in series.items()]
    return {"title": "Memory of a read of 5 GiB", "unit": "MiB", "series": series}


def growth():
    def runs(wall, peak):
        return [{"usage": usage(wall * by, peak, wall), "requests": 66} for by in (1.0, 1.04, 0.98)]

    sizes, counts = [1024 * MIB << bits for bits in range(7)], [1, 10, 100, 1000, 10000]
    moved = [
        {"direction": direction, "size": size, "runs": runs(size / MIB * pace, min(276.0, peak + size / (200 * MIB)))}
        for direction, pace, peak in (("upload", 0.0009, 52), ("download", 0.0004, 150))
        for size in sizes
    ]
    starved = "s3://bench/one-27: write failed: waited 5.0 s for memory that no request can free"
    written = [
        {"way": way, "writers": count, "starved": starved if way == "turns" and count > 100 else None,
         "runs": runs(0.01 + count * pace, min(276.0, 17 + count) + count / 300)}
        for way, pace in (("tasks", 0.0006), ("turns", 0.0006), ("spooled-turns", 0.004)) for count in counts
    ]  # fmt: skip
    fit = {"slope": 0.92, "intercept": 0.04, "farthest_percent": 3.1}
    fits = [
        {"of": "upload", "figure": figure, "per": "GiB", "fit": fit} for figure in ("wall s", "CPU s", "peak RSS MiB")
    ]
    trial = {"sizes": sizes, "writers": counts, "memory": 256 * MIB, "runs": 3, "quick": False}
    return CONDITIONS | {"trial": trial, "moved": moved, "written": written, "fits": fits}


def all_figures():
    """Each file's name, and what is in it."""
    tools = [
        ("tidegate", 0.33, 0.41, 29, 66), ("object_store", 0.39, 0.51, 36, 105),
        ("transfer manager", 0.53, 0.71, 275, 130), ("s5cmd", 3.07, 3.04, 22, 23), ("rclone", 5.24, 5.37, 81, 210),
        ("(floor)", 0.25, 0.36, 5, 64),
    ]  # fmt: skip
    through = "through toxiproxy: 20 ms each way, 40 MB/s a connection"
    gains = [108.32, 104.41, 117.11, 170.03, 247.14, 284.82, 316.53, 339.35, 342.67, 332.71]
    of_async = [(MIB << (2 + number), 10 * MIB, None, gain, 0.049 * 1.9**number) for number, gain in enumerate(gains)]
    of_threaded = [
        (64 << 10, 5 * MIB, 1, 37, 0.09), (512 << 10, 5 * MIB, 1, 57, 0.19), (MIB, 5 * MIB, 1, 76, 0.3),
        (10 * MIB, 5 * MIB, 2, 152, 2.3), (50 * MIB, 5 * MIB, 5, 201, 11.1), (50 * MIB, 5 * MIB, 10, 196, 11.1),
        (150 * MIB, 5 * MIB, 5, 212, 33.2), (150 * MIB, 5 * MIB, 10, 199, 33.2),
    ]  # fmt: skip
    merges = {
        "streamed": lambda inputs: (inputs * 0.5, 90 + inputs),
        "whole": lambda inputs: (inputs * 0.4, 130 * inputs),
    }
    builds = {
        "streamed": lambda size: (8.0, 60), "beside": lambda size: (8.0 + size / (90 * MIB), 99),
        "whole": lambda size: (14.0 + size / (60 * MIB), 99),
    }  # fmt: skip
    return {
        "upload": contest("One file of 1 GiB, server on the same machine, unshaped", tools),
        "upload-shaped": contest(f"One file of 1 GiB {through}", tools[:5]),
        "pipe": contest("2 GiB through a pipe, server on the same machine, unshaped", tools[:5], 1, 2048 * MIB),
        "pipe-shaped": contest(f"2 GiB through a pipe {through}", tools[:5], 1, 2048 * MIB),
        "upload-1000": contest(
            "1000 files of 1 MiB, server on the same machine, unshaped", [tools[0], *tools[3:5]], 1000, MIB
        ),
        "upload-10000": contest(
            "10000 files of 4 KiB, server on the same machine, unshaped", [tools[0], *tools[3:5]], 10000, 4096
        ),
        "download": contest("One object of 1 GiB into a file, server on the same machine, unshaped", tools[:5]),
        "download-shaped": contest(f"One object of 1 GiB into a file {through}", tools[:5]),
        "a": parts("async", of_async, ["one_by_one", "at_once", "auto", "cold"]),
        "c": parts("threaded", of_threaded, ["plain", "one_by_one", "at_once", "auto", "cold"]),
        "b": journal(),
        "compaction": tables("inputs", [2, 4, 8, 16, 32], merges),
        "tables": tables("table_size", [MIB << bits for bits in range(3, 10)], builds),
        "prefixes": prefixes(),
        "memory": memory(),
        "growth": growth(),
    }


def write(folder, figures):
    for name, report in figures.items():
        (folder / f"{name}.json").write_text(json.dumps(report))
