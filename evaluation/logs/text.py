"""Text of a log file, by its byte order mark; and whether its last line was written to the end."""

import codecs
from pathlib import Path

from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.logs.limits import Memory

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def read_text(file: Path, memory: Memory | None = None) -> str:
    """UTF-8, or what the byte order mark says. InputError with the line of the first byte that is neither.

    memory: what is counted for the log that the file is of; a new one by default, with the default limits.
    """
    (memory or Memory()).take_file(file)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise InputError(f"{file}: can't be read ({error.strerror or error})") from None
    encoding = next((name for mark, name in _MARKS if content.startswith(mark)), "utf-8")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputError(f"{file}, line {line}: not {encoding.removesuffix('-sig').upper()} text") from None
