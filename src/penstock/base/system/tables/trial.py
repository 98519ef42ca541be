"""Decodes a Parquet file without a seal in a separate process: `python -m penstock.base.system.tables.trial`.

Over some damaged page headers Arrow ends its process by a signal, or asks for all memory. The arguments are the file,
the bytes of memory that it may take, and its columns.
"""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

OUT_OF_MEMORY = 3
"""The exit status of a trial that asked for more memory than it may take."""


def main() -> None:
    """Decode the columns once. An error that Arrow itself reports is left to the caller, who meets it again."""
    path, most_bytes, *columns = sys.argv[1:]
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # the others reserve more addresses than a trial may take
    import pyarrow as pa
    import pyarrow.parquet as pq

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    has_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGESIZE")
    limits = [limit for limit in resource.getrlimit(resource.RLIMIT_AS) if limit != resource.RLIM_INFINITY]
    least = min([has_bytes + int(most_bytes), *limits])
    resource.setrlimit(resource.RLIMIT_AS, (least, least))
    try:
        with suppress(pa.ArrowInvalid, OSError, ValueError), Path(path).open("rb") as raw:
            pq.ParquetFile(raw, pre_buffer=False).read(columns=columns, use_threads=False).validate(full=True)
    except (MemoryError, pa.ArrowMemoryError):
        sys.exit(OUT_OF_MEMORY)


if __name__ == "__main__":
    main()
