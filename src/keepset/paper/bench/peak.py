"""Peak memory of a process."""

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")


def forget_peak() -> None:
    """Lets the peak start at what is held now, where the system can: what came before may have held more."""
    if CLEAR_REFS.exists():
        CLEAR_REFS.write_text("5")


def peak_bytes() -> int:
    """The most memory this process has held: what ``getrusage`` says on Linux begins with the peak of its parent."""
    if STATUS.exists():
        (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def in_own_process(what: str, module: str, function: str, *arguments: str | int) -> Any:
    """What ``function`` prints last, as JSON, when a fresh process calls it; ``what`` is being measured."""
    call = f"{function}({', '.join(map(repr, arguments))})"
    code = f"from {module} import {function}; {call}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{what}: the process that measures memory failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])
