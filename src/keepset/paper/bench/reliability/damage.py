"""Bits flipped in what was written, and rows that nobody would write on purpose."""

import json
import random
from collections import Counter
from pathlib import Path

from keepset.jobs.stored import check_labels, stored_rows, verify
from keepset.paper.bench.reliability.folders import facts

NASTY = ("\x1b[2J", "\u202e", "\ufeff", "\x00", "🙂" * 50, "\\ud800", "<|start|>", " ", "'; DROP TABLE rows; --")


def flip_bits(out: Path, flips: int, seed: int) -> Counter[str]:
    """Flips one bit of a shard at a time: refused, accepted though it reads the same, or read back different."""
    rng = random.Random(seed)
    whole = [row.model_dump_json() for row in stored_rows(out, check_labels(out))]
    shards = [out / shard.file for shard in check_labels(out).shards]
    found: Counter[str] = Counter(refused=0, same=0, different=0)
    for _ in range(flips):
        path = rng.choice(shards)
        content = path.read_bytes()
        place = rng.randrange(8 * len(content))
        flipped = bytearray(content)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        try:
            verify(out)
            read = [row.model_dump_json() for row in stored_rows(out, check_labels(out))]
            found["same" if read == whole else "different"] += 1
        except ValueError as error:
            found["refused" if path.name in str(error) else "different"] += 1
        path.write_bytes(content)
    return found


def write_fuzzed(path: Path, n: int, seed: int) -> Path:
    """``n`` lines, none blank: rows with one thing wrong, several, or nothing."""
    rng = random.Random(seed)
    with path.open("wb") as file:
        for i in range(n):
            file.write(fuzzed(i, rng) + b"\n")
    return path


def fuzzed(i: int, rng: random.Random) -> bytes:
    row = facts(i)
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        field = rng.choice([*row, "blocks", "id"])
        row[field] = rng.choice(
            (
                None,
                True,
                rng.random() * 10**300,
                "",
                [],
                {"a": [[[]]]},
                rng.choice(NASTY),
                [rng.choice(NASTY), "42"],
                f"{row.get(field, '')}{rng.choice(NASTY)}",
                "word " * rng.choice((1, 100, 5_000)),
            )
        )
        if rng.random() < 0.2:
            del row[field]
    line = json.dumps(row, ensure_ascii=rng.random() < 0.5).encode("utf-8", errors="surrogatepass")
    if rng.random() < 0.3:
        changed = bytearray(line)
        for _ in range(rng.randint(1, 5)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        line = bytes(changed)[: rng.choice((len(changed), rng.randrange(1, len(changed) + 1)))]
    return line.replace(b"\n", b" ").replace(b"\r", b" ").strip() or b"{"
