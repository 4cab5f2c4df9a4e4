"""The two sides of a comparison: how to run each, and the settings they share.

Each run is a separate process, whose report stays as a JSON file in the folder of the comparison.
"""

import json
import os
import platform
import re
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODELS = ["lr", "fm", "wide_deep", "deepfm", "dcn", "dcn_v1", "dlrm", "final_mlp", "mask_net", "mmoe",
          "ple"]


class Sides:
    """Runs either side; `options` come from `add_options`."""

    def __init__(self, options):
        self.options = options
        self.folder = Path(options.out)
        self.folder.mkdir(parents=True, exist_ok=True)

    def ours(self, name, model, data, settings):
        """One run of `stepwell train`; `settings` are keys of its configuration."""
        report = self.folder / f"{name}.json"
        settings = settings | dict(s.split("=", 1) for s in self.options.set)
        pairs = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        command = [self.options.stepwell, "train", ROOT / f"examples/{model}.toml",
                   "--data", data, *pairs, "--report", report]
        run(command)
        return json.loads(report.read_text())

    def peer(self, name, model, data, *flags):
        """One run of `torch_ctr.py`."""
        command = [self.options.python, ROOT / "bench/torch_ctr.py", data, "--model", model]
        text = run([*command, *flags])
        (self.folder / f"{name}.json").write_text(text)
        return json.loads(text)


def add_options(parser, out):
    add = parser.add_argument
    add("--stepwell", type=Path, default=ROOT / "target/release/stepwell", help="our binary")
    add("--python", default=sys.executable, help="a Python with PyTorch (default: this one)")
    add("--models", nargs="+", default=MODELS, choices=MODELS, metavar="MODEL")
    add("--set", action="append", default=[], metavar="KEY=VALUE",
        help="a setting for our side, which overrides all others")
    add("--out", default=str(ROOT / out), help="folder for data and reports (default: %(default)s)")
    add("--only", choices=["ours", "peer"], help="run only one side")


def run(command):
    """Standard output of a command; if it fails, exits with the end of its output."""
    command = [str(word) for word in command]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise SystemExit(f"{' '.join(command)}\nended with {done.returncode}:\n{tail}")
    return done.stdout


def say(text):
    print(text, file=sys.stderr, flush=True)


def machine():
    """Processor, cores this process may use, and memory, in one line."""
    cpus = Path("/proc/cpuinfo").read_text()
    name = re.search(r"model name\s*: (.*)", cpus)
    flags = re.search(r"flags\s*: (.*)", cpus)
    sets = [f for f in ("avx2", "avx512f", "amx_bf16") if flags and f in flags[1].split()]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (f"{name[1] if name else platform.machine()} ({', '.join(sets)}), "
            f"{len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB")


def versions(options, peer_report):
    """What was compared, in one line."""
    libraries = (peer_report or {}).get("versions", {})
    said = [f"{name} {version}" for name, version in libraries.items()]
    if options.only != "peer":
        said.insert(0, run([options.stepwell, "--version"]).strip())
        commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"],
                                capture_output=True, text=True)
        said[0] += f" ({commit.stdout.strip()})" if commit.returncode == 0 else ""
    return ", ".join([*said, f"Python {platform.python_version()}", f"Linux {platform.release()}"])


def mean_and_deviation(values):
    deviation = statistics.stdev(values) if len(values) > 1 else float("nan")
    return statistics.fmean(values), deviation


def table(head, rows):
    """A markdown table; every column but the first is right-aligned."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])
