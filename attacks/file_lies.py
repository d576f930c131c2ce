"""Files that are cut, damaged, or lie about themselves: bytes in, bytes and what was done out."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from numpy.random import Generator

import file_crafting as crafting


class Lie(NamedTuple):
    """The content of a file, and what was done to it."""

    content: bytes
    told: str
    sparse: int = 0  # bytes of the whole file, where zeros follow that take no room on the disk


def damaged(rng: Generator, content: bytes) -> Lie:
    """Cut, or with more bytes, or with flipped bits; the checksum stays as it was."""
    draw = rng.random()
    if draw < 0.25:
        length = int(rng.integers(len(content)))
        return Lie(content[:length], f"cut to {length} bytes")
    if draw < 0.3:
        return Lie(content + rng.bytes(int(rng.integers(1, 9))), "bytes more")
    # the beginning is small, and yet where most can go wrong
    end = len(content) if draw < 0.6 else min(len(content), 5000)
    changed, places = bytearray(content), rng.integers(end, size=int(rng.choice((1, 1, 2, 8))))
    for at in places:
        changed[at] ^= 1 << int(rng.integers(8))
    return Lie(bytes(changed), f"flipped bits at {places.tolist()}")


def lying(rng: Generator, content: bytes) -> Lie:
    """A safetensors file whose header says what is not so."""
    return LIES[rng.integers(len(LIES))](rng, content)


def _length(rng: Generator, content: bytes) -> Lie:
    lengths = (0, 1, 8, 100, len(content) - 8, len(content), 10**8, 2**31, 2**62, 2**63, 2**64 - 1)
    length = lengths[rng.integers(len(lengths))]
    return Lie(struct.pack("<Q", length) + content[8:], f"a header of {length} bytes")


def _sparse_header(rng: Generator, content: bytes) -> Lie:
    """A file that is as large as its header says, and holds next to nothing."""
    size = int(rng.choice((10**8, 2 * 10**9, 10**10)))
    start = (b"{", b"", b"[", content[8:40])[rng.integers(4)]
    return Lie(struct.pack("<Q", size) + start, f"a header of {size} bytes of nothing", 8 + size)


def _sparse_arrays(rng: Generator, content: bytes) -> Lie:
    """An array that is as large as the header says, and holds nothing."""
    header, data = crafting.split(content)
    name = [key for key in header if key != "__metadata__"][-1]
    size = 3 * 10**8 if rng.random() < 0.05 else 10**7
    end = len(data) + size // 8 * 8
    header[name] = {"dtype": "U8", "shape": [end], "data_offsets": [0, end]}
    header = {"__metadata__": header["__metadata__"], name: header[name]}
    text = crafting.json_text(header).encode()
    return Lie(crafting.joined(text, data), f"{name} of {end} bytes", 8 + len(text) + end)


def _entry(rng: Generator, content: bytes) -> Lie:
    """One entry of the header changed: offsets, shapes, types."""
    header, data = crafting.split(content)
    found = [place for place in crafting.places(header) if not place[2].startswith("__meta")]
    holder, key, path = found[rng.integers(len(found))]
    pool: tuple[Any, ...] = (
        *(0, 1, -1, 8, len(data), len(data) + 8, 2**31, 2**62, 2**64, 1.0, 1.5, True, None),
        *("F64", "BF16", "F8_E4M3", "f64", "", "I64", [], [0], [0, 0], {}, [2**62, 4], [-1]),
    )
    holder[key] = crafting.anything(rng) if rng.random() < 0.2 else pool[rng.integers(len(pool))]
    return Lie(_with(header, data), f"{path} = {holder[key]!r:.60}")


def _overlap(rng: Generator, content: bytes) -> Lie:
    """Two arrays in the same place, with the checksum of what a trusting reader would read."""
    contents = crafting.taken_apart(content)
    names = sorted(contents.arrays)
    if len(names) < 2:
        return _length(rng, content)
    one, two = (str(name) for name in rng.choice(names, 2, replace=False))
    contents.arrays[one] = contents.arrays[two]
    header, data = crafting.split(crafting.put_together(contents))
    header[one]["data_offsets"] = header[two]["data_offsets"]
    return Lie(_with(header, data), f"{one} lies where {two} does")


def _hole(rng: Generator, content: bytes) -> Lie:
    """Room between arrays, or after them, that nobody owns."""
    header, data = crafting.split(content)
    begin = int(rng.integers(len(data) + 1))
    for name, entry in header.items():
        if name != "__metadata__" and entry["data_offsets"][0] >= begin:
            entry["data_offsets"] = [offset + 8 for offset in entry["data_offsets"]]
    return Lie(_with(header, data[:begin] + b"\0" * 8 + data[begin:]), f"a hole at {begin}")


def _metadata(rng: Generator, content: bytes) -> Lie:
    """The document or its checksum in another form."""
    header, data = crafting.split(content)
    text = header["__metadata__"]["calibrant"]
    lies: tuple[Any, ...] = (
        *("", "[]", "{}", "null", "NaN", "[" * 100_000, text[:-1], text + " ", text + text),
        *('{"body": "{}", "sha256": ""}', '{"body": {}, "sha256": null}', '{"body": 1}'),
        *(None, 1, [text], {"body": text}, text.replace("sha256", "sha257")),
        text.replace('"sha256": "', '"sha256": "0'),
        text.replace('{"body"', '{"body": "{}", "body"', 1),
    )
    lie = lies[rng.integers(len(lies))]
    header["__metadata__"] = {"calibrant": lie} if rng.random() < 0.9 else lie
    return Lie(_with(header, data), f"metadata {lie!r:.60}")


def _header_text(rng: Generator, content: bytes) -> Lie:
    """A header whose text is no good JSON."""
    header, data = crafting.split(content)
    text = crafting.json_text(header).encode()
    entry = b'{"dtype": "F64", "shape": [], "data_offsets": [0, 8]}'
    lies = (
        text.replace(b":", b": NaN,", 1),
        text.replace(b"{", b"\xff{", 1),
        b"\xef\xbb\xbf" + text,
        b"  " + text,
        text[:-1] + b', "__metadata__": {}}',
        text[:-1] + b', "' + next(iter(header)).encode() + b'": ' + entry + b"}",
        text[:-1] + b', "more": ' + b"[" * 90_000 + b"]" * 90_000 + b"}",
        text[:-1] + b', "a\xc3": 1}',
        b"[" + text + b"]",
        text.replace(b"[", b"[" + b"9" * 5000 + b", ", 1),
    )
    lie = lies[rng.integers(len(lies))]
    return Lie(crafting.joined(lie, data), f"header {lie[:40]!r}..")


def _document_text(rng: Generator, content: bytes) -> Lie:
    """A document that is no good JSON, its checksum right."""
    contents = crafting.taken_apart(content)
    text = crafting.json_text(contents.body)
    lies = (
        text.replace(": ", ": NaN, ", 1),
        text[:-1] + ', "kind": "meter"}',
        text.replace('"version"', '"kind": 3, "version"', 1),
        "[" * 200_000 + "]" * 200_000,
        text[:-1] + ', "more": ' + '{"a":' * 90_000 + "1" + "}" * 90_000 + "}",
        text[:-1] + ', "more": [' + "[]," * 400_000 + "[]]}",
        text[:-1] + ', "more": "' + "x" * 3_000_000 + '"}',
        text + "\n",
        text.replace('"', '"\ud800', 1),
        *("", "NaN", '"' + text.replace('"', '\\"') + '"'),
    )
    lie = lies[rng.integers(len(lies))]
    return Lie(crafting.with_document(contents.arrays, lie), f"document {lie[:40]!r}..")


def _noise(rng: Generator, content: bytes) -> Lie:
    """Bytes of any kind behind a header's length, or none at all."""
    size = int(rng.integers(0, 300))
    start = struct.pack("<Q", size) if rng.random() < 0.5 else b""
    return Lie(start + rng.bytes(size), f"{size} bytes of noise")


def _with(header: dict[str, Any], data: bytes) -> bytes:
    return crafting.joined(crafting.json_text(header).encode(), data)


LIES: tuple[Callable[[Generator, bytes], Lie], ...] = (
    *(_entry, _entry, _entry, _entry, _overlap, _hole, _metadata, _header_text),
    *(_document_text, _length, _sparse_header, _sparse_arrays, _noise),
)
