"""Stage 7b: a long text made short: text in, text out, for any engine, with the router that ships in the package.

    keepset.compress(report, budget=0.25).text                              # nobody has asked yet
    keepset.compress(report, budget=0.1, question="Who pays?").text         # only what the question needs

Reading order: ``compressed`` (what comes out), ``compressor`` (how), ``stream`` (texts without end).
"""

from keepset.compression.compressed import Compressed
from keepset.compression.compressor import Compressor, compress
from keepset.compression.stream import compress_stream

__all__ = ["Compressed", "Compressor", "compress", "compress_stream"]
