"""Tables on disk in chunks: CSV, CSV.gz and Parquet as Arrow record batches."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from apps.feed.errors import FeedError

_SUFFIXES: Final = (".csv.gz", ".csv", ".tsv.gz", ".tsv", ".parquet", ".pq")
_DELIMITERS: Final = ",;\t|"
_EMPTY_CELLS: Final = ["", "NA", "N/A", "n/a", "null", "NULL", "None", "-"]
#: Rows per Parquet chunk times columns: about this many cells are in memory at once.
_CELLS_PER_CHUNK: Final = 2_000_000
_BLOCK_BYTES: Final = 4 * 1024 * 1024

CountMalformed = Callable[[], None]


def stem(path: Path) -> str:
    """Return the file name without its endings.

    Raises:
        FeedError: The ending is of no known format.
    """
    for suffix in _SUFFIXES:
        if path.name.lower().endswith(suffix):
            return path.name[: -len(suffix)]
    message = f"{path}: unknown format; known endings: {', '.join(_SUFFIXES)}; for captured OTLP use --format otlp"
    raise FeedError(message)


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() in (".parquet", ".pq")


def column_names(path: Path) -> list[str]:
    """Return the names in the header, in order.

    Raises:
        FeedError: There is no such file, or no header in it.
    """
    stem(path)
    try:
        if _is_parquet(path):
            return list(pa.parquet.read_schema(path).names)
        header = _header(path)
    except FileNotFoundError as missing:
        message = f"{path}: no such file"
        raise FeedError(message) from missing
    except (OSError, UnicodeDecodeError, pa.ArrowInvalid) as unreadable:
        message = f"{path} cannot be read: {unreadable}"
        raise FeedError(message) from unreadable
    if not header.strip():
        message = f"{path}: the first line must name the columns, but it is empty"
        raise FeedError(message)
    return next(csv.reader([header], delimiter=_delimiter(header)))


def _header(path: Path) -> str:
    with pa.input_stream(str(path), compression="detect") as stream:
        return io.TextIOWrapper(stream, encoding="utf-8-sig").readline()


def _delimiter(header: str) -> str:
    return max(_DELIMITERS, key=header.count)


def read_batches(path: Path, malformed: CountMalformed, block_bytes: int = _BLOCK_BYTES) -> Iterator[pa.RecordBatch]:
    """Yield the file's rows in order; CSV cells as strings, absent ones null.

    Args:
        path: The file.
        malformed: Called for every row with a wrong number of cells; such rows are left out.
        block_bytes: Size of a chunk of CSV text.

    Raises:
        FeedError: The file is broken.
    """
    try:
        yield from _parquet_batches(path) if _is_parquet(path) else _csv_batches(path, malformed, block_bytes)
    except (OSError, pa.ArrowInvalid) as broken:
        message = f"{path} cannot be read: {broken}"
        raise FeedError(message) from broken


def _parquet_batches(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.parquet.ParquetFile(path) as file:
        rows = max(1, _CELLS_PER_CHUNK // max(1, len(file.schema_arrow.names)))
        yield from file.iter_batches(batch_size=rows, use_threads=False)


def _csv_batches(path: Path, malformed: CountMalformed, block_bytes: int) -> Iterator[pa.RecordBatch]:
    names = column_names(path)

    def skip(_: Any) -> str:
        malformed()
        return "skip"

    # Positions, not names: column names may repeat, and a cell that is no number must not end the file.
    columns = [str(position) for position in range(len(names))]
    with pa.csv.open_csv(
        str(path),
        read_options=pa.csv.ReadOptions(
            use_threads=False, column_names=columns, skip_rows=1, block_size=_block(path, block_bytes)
        ),
        parse_options=pa.csv.ParseOptions(delimiter=_delimiter(_header(path)), invalid_row_handler=skip),
        convert_options=pa.csv.ConvertOptions(
            column_types=dict.fromkeys(columns, pa.string()), strings_can_be_null=True, null_values=_EMPTY_CELLS
        ),
    ) as reader:
        yield from reader


def _block(path: Path, block_bytes: int) -> int:
    # A row must fit into a block.
    return max(block_bytes, 4 * len(_header(path)))
