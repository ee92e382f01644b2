"""What this machine has, what is faster on it, and what is missing, with the command that adds or mends it.

for finding in examine():
    print(finding.what, finding.said, finding.command)
"""

import importlib.util
import platform
import re
import shlex
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import psutil
import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text

from keepset.models.bundled import BUNDLED, MEGABYTE, BundledModel, cache_folder, fetched
from keepset.models.loading import default_dtype
from keepset.models.products import WORTH, one_dnn_speedup
from keepset.models.quantize import check_processor, speedup
from keepset.models.stored import damage, note_hashes
from keepset.terminal import one_line
from keepset.versions import package_versions

INSTRUCTIONS = {
    "AVX2": "_is_avx2_supported",
    "AVX-512": "_is_avx512_supported",
    "AVX-512 VNNI": "_is_vnni_supported",
    "AVX-512 BF16": "_is_avx512_bf16_supported",
    "AMX": "_is_amx_tile_supported",
}
"""What torch calls the question whether the processor has them."""
MEASURED = (torch.float32, torch.bfloat16, torch.float16)
ROWS, WIDTH, REPEATS = 128, 1_024, 5
"""A product of a small model's size; the best of a few tells more than their mean on a busy machine."""
OF_AN_EXTRA = re.compile(r"""([\w.-]+).*;.*extra *== *["']([\w.-]+)["']""")
"""A requirement as the package's metadata has it: captum==0.9.0; extra == "peers"."""
DEVELOPMENT = ("dev", "docs", "test")
"""The extras of those who change keepset: nothing a user misses."""
FIRST_COLUMN = 17
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
"""What images often set, and pip then leaves nothing compiled where it is told --no-compile."""


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    what: str
    said: str
    command: str | None = None
    """What adds or mends it."""
    wrong: bool = False
    """Something that is there does not work."""


def examine() -> Iterator[Finding]:
    """Looks at everything, one after the other; a model's files are read as a whole."""
    yield from software()
    yield from compiled()
    yield from processor()
    yield from speed()
    yield from room()
    for entry in BUNDLED.values():
        yield bundled_model(entry)
    yield from extras(requires("keepset") or [])


def software() -> Iterator[Finding]:
    versions = package_versions()
    yield Finding("Python", f"{versions['python']} on {platform.system()} {platform.machine()}")
    yield Finding("packages", ", ".join(f"{name} {found}" for name, found in versions.items() if name != "python"))
    if importlib.util.find_spec("pip") is None:
        command = f"{shlex.quote(sys.executable)} -m ensurepip"
        yield Finding("pip", "not here; 'keepset models fetch' needs it", command, wrong=True)


def compiled() -> Iterator[Finding]:
    """Modules that are compiled anew at every start, which takes longer than all else that a start does."""
    if sys.dont_write_bytecode and not Path(importlib.util.cache_from_source(torch.__file__)).exists():
        said = "torch and transformers are compiled anew at every start, seconds each time: no bytecode is kept here"
        yield Finding("start", said, f"unset {NO_BYTECODE}")


def processor() -> Iterator[Finding]:
    tests = {name: getattr(torch.cpu, test, None) for name, test in INSTRUCTIONS.items()}  # torch may rename them
    has = [name for name, test in tests.items() if test is not None and test()]
    yield Finding(
        "processor", f"{psutil.cpu_count(logical=False) or '?'} cores, {torch.get_num_threads()} thread(s) used"
    )
    yield Finding("instructions", ", ".join(has) or f"none of {', '.join(INSTRUCTIONS)}")
    if torch.cuda.is_available():
        names = (torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
        yield Finding("GPU", f"{', '.join(names)}; use it with --device cuda")
    elif torch.backends.mps.is_available():
        yield Finding("GPU", "Apple's; use it with --device mps")
    else:
        yield Finding("GPU", "none that torch can use")


def speed() -> Iterator[Finding]:
    """What is faster here, measured now: instruction sets alone do not tell."""
    seconds = {str(dtype).removeprefix("torch."): product_seconds(dtype) for dtype in MEASURED}
    best = min(seconds, key=seconds.__getitem__)
    shares = ", ".join(f"{name} {seconds[best] / taken:.2f}" for name, taken in seconds.items())
    yield Finding("faster here", f"{best} ({shares} of its speed, one matrix product)")
    taken = str(default_dtype(0)).removeprefix("torch.")
    differs = f"; try dtype={best!r}" if best != taken else ""
    yield Finding("", f"load_model takes {taken} on this processor{differs}")
    yield float_products()
    yield whole_numbers()
    if (threads := torch.get_num_threads()) > 1:
        alone = _with_threads(1, threads)
        gain = alone / seconds["float32"]
        yield Finding("threads", f"{threads} are {gain:.1f} times as fast as one, in float32")


def float_products() -> Finding:
    """Which of torch's two libraries multiplies float32 here."""
    times = one_dnn_speedup()
    taken = "load_model takes oneDNN's" if times > WORTH else "load_model leaves them to MKL"
    return Finding("float32 layers", f"{times:.1f} times as fast by oneDNN, one layer of a small model; {taken}")


def whole_numbers() -> Finding:
    """Whether ``quantize="int8"`` is worth it here."""
    try:
        check_processor()
    except ValueError as error:
        return Finding("int8", str(error))
    times = speedup()
    worth = "use it with --quantize int8" if times > 1 else "leave --quantize out here"
    return Finding("int8", f"{times:.1f} times as fast as float32, one layer of a 1.5B model; {worth}")


def product_seconds(dtype: torch.dtype) -> float:
    """The best of some matrix products, after one to warm up."""
    rows, matrix = torch.ones(ROWS, WIDTH, dtype=dtype), torch.ones(WIDTH, WIDTH, dtype=dtype)
    taken = []
    for _ in range(1 + REPEATS):
        began = time.perf_counter()
        rows @ matrix
        taken.append(time.perf_counter() - began)
    return min(taken[1:])


def _with_threads(threads: int, before: int) -> float:
    torch.set_num_threads(threads)
    try:
        return product_seconds(torch.float32)
    finally:
        torch.set_num_threads(before)


def room() -> Iterator[Finding]:
    memory = psutil.virtual_memory()
    yield Finding("memory", f"{memory.available / 1e9:,.1f} GB of {memory.total / 1e9:,.1f} GB are free")
    cache = cache_folder()
    there = next(folder for folder in (cache, *cache.absolute().parents) if folder.exists())
    free = shutil.disk_usage(there).free
    yield Finding("disk", f"{free / 1e9:,.1f} GB are free for models, in {cache}")
    missing = [entry for entry in BUNDLED.values() if fetched(entry.name) is None and entry.needed_bytes > free]
    for entry in missing:
        needed = f"{entry.needed_bytes / MEGABYTE:,.0f} MB"
        yield Finding("", f"too little to fetch {entry.name}: {needed} needed; or set KEEPSET_CACHE to another disk")


def bundled_model(entry: BundledModel) -> Finding:
    """Whether a model is here, and whether its files are those that were written."""
    folder, fetch = fetched(entry.name), f"keepset models fetch {entry.name}"
    if folder is None:
        missing = f"{entry.name}: not here ({entry.gguf_bytes / MEGABYTE:,.0f} MB to download)"
        return Finding("model", missing, fetch)
    if found := damage(folder, thorough=True):
        return Finding("model", f"{entry.name}: damaged: {found}", fetch, wrong=True)
    return Finding("model", f"{entry.name}: {_hash_state(folder)}")


def _hash_state(folder: Path) -> str:
    try:
        new = note_hashes(folder)
    except OSError as error:
        return f"here, without hashes, and they cannot be noted down: {error}"
    if new:
        return "here, converted before there were hashes; noted down as it is now"
    return "here, all hashes right"


def extras(requirements: Iterable[str]) -> Iterator[Finding]:
    """The packages of every extra that are missing, and how to get them."""
    missing: dict[str, list[str]] = {}
    for found in filter(None, map(OF_AN_EXTRA.match, requirements)):
        package, extra = found.groups()
        if extra not in DEVELOPMENT and not _installed(package):
            missing.setdefault(extra, []).append(package)
    for extra, packages in missing.items():
        yield Finding(f"extra {extra}", f"not here: {', '.join(packages)}", f"pip install 'keepset[{extra}]'")


def _installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def show(findings: Iterable[Finding], console: Console) -> bool:
    """Prints each as it is found; True when nothing is broken."""
    sound = True
    for finding in findings:
        table = Table.grid(padding=(0, 2))
        table.add_column(width=FIRST_COLUMN, no_wrap=True)
        table.add_column(overflow="fold")
        style = "bold red" if finding.wrong else ""
        table.add_row(Text(finding.what, style="bold"), Text(one_line(finding.said), style=style))
        if finding.command:
            table.add_row("", Text(finding.command, style="cyan"))
        console.print(table)
        sound &= not finding.wrong
    return sound
