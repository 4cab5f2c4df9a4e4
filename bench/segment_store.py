"""A reader of segment stores, version 3, based only on crates/ssd/FORMAT.md."""

import json
import re

import numpy as np
import xxhash

FIELDS = {"checksum", "format", "version", "checksum_name", "store", "origins", "table",
          "row_bytes", "page_bytes", "commit", "next_seq", "expire_before", "directories",
          "next_segment", "rows", "segments"}


class Wrong(Exception):
    """A check that failed."""


def demand(holds, why):
    if not holds:
        raise Wrong(why)


def xxh3(data):
    return xxhash.xxh3_64_intdigest(data)


def number(data, at, size):
    return int.from_bytes(data[at:at + size], "little")


class Store:
    """A segment store as described in crates/ssd/FORMAT.md: checks every checksum, reads every row.

    It was created for segments of `segment_bytes`, which limit its page size.
    """

    def __init__(self, path, segment_bytes):
        self.path, text = path, (path / "manifest.json").read_bytes()
        head = re.match(rb'\{\n  "checksum": "([0-9a-f]{16})",\n', text)
        demand(head and int(head[1], 16) == xxh3(text[head.end():]), f"{path}: wrong checksum of the manifest")
        self.manifest = m = json.loads(text)
        demand((m["format"], m["version"]) == ("stepwell segment store", 3),
               f"{path}: {m['format']} of version {m['version']}")
        demand(set(m) - {"key_shards"} == FIELDS and m["checksum_name"] == "xxh3-64",
               f"{path}: fields {sorted(m)}")
        self.row_bytes, self.page = m["row_bytes"], m["page_bytes"]
        self.stride = self.row_bytes + 16
        self.per_page = (self.page - 8) // self.stride
        demand(self.page == page_bytes(self.row_bytes, segment_bytes),
               f"{path}: pages of {self.page}")
        self.key_shards = shards_of(m, np.ones(256, bool))
        numbers = [0, *(named["segment"] for named in m["segments"])]
        demand(all(a < b for a, b in zip(numbers, [*numbers[1:], m["next_segment"]])),
               f"{path}: numbers of segments {numbers[1:]}, next {m['next_segment']}")
        segments = [Segment(self, named) for named in m["segments"]]
        self.deletions = [d for segment in segments for d in segment.deletions]
        self.versions = sum(len(segment.rows) for segment in segments)
        self.moved = sum(int((s.rows["birth"] != s.number).sum()) for s in segments)
        none = np.empty(0, self.dtype())
        self.choose(np.concatenate([none, *(segment.rows for segment in segments)]))

    def dtype(self):
        """A row as on a page, the number of its segment at the origin, and its own number there."""
        return [("key", "<u8"), ("birth", "<u4"), ("used", "<u4"),
                ("lanes", "<f4", self.row_bytes // 4), ("number", "<u8"), ("row", "<u8")]

    def choose(self, rows):
        """Keeps the current version of each key, without expired rows."""
        dead = {}
        for key, birth, row in self.deletions:
            dead.setdefault(key, []).append((birth, row))
        alive = np.ones(len(rows), bool)
        if dead:
            for i in np.flatnonzero(np.isin(rows["key"], list(dead))):
                b, s, r = (int(rows[i][field]) for field in ("birth", "number", "row"))
                alive[i] = not any(b < birth or (b == birth and row >= 2**31)
                                   or (b == birth == s and r < row)
                                   for birth, row in dead[int(rows[i]["key"])])
        rows = rows[alive]
        rows = rows[np.lexsort((rows["row"], rows["number"], rows["birth"], rows["key"]))]
        last = np.append(rows["key"][1:] != rows["key"][:-1], True)[:len(rows)]
        rows = rows[last]
        demand(len(rows) == self.manifest["rows"],
               f"{len(rows)} current rows, but the manifest has {self.manifest['rows']}")
        rows = rows[rows["used"] >= self.manifest["expire_before"]]
        self.keys, self.lanes = rows["key"], np.ascontiguousarray(rows["lanes"])


class Segment:
    """A segment: its rows in order and its deletions, limited to the store's key shards.

    Every checksum is checked, and the footer and tail are compared with the pages.
    """

    def __init__(self, store, named):
        self.store, self.named = store, named
        self.id, self.number = store.manifest["store"], named["segment"]
        counted = store.key_shards
        if "origin" in named:
            origin = store.manifest["origins"][named["origin"]]
            self.id, self.number = origin["store"], named["number"]
            counted = shards_of(origin, counted)
        self.name = store.path / f"segment-{named['segment']:012}.rows"
        self.data = self.name.read_bytes()
        size = len(self.data)
        self.demand(size == named["bytes"] and size % 4096 == 0, "wrong length")
        self.read_tail(self.data[-128:])
        self.read_header(self.data[:store.page])
        pages = -(-self.count // store.per_page)
        self.check_pages(pages)
        footer = store.page * (1 + pages)
        rows = self.rows_of(self.data[store.page:footer])
        deletions, shards = self.read_footer(footer, rows)
        self.rows = rows[counted[shards]]
        killed = key_shards_of(np.array([key for key, _, _ in deletions], np.uint64))
        self.deletions = [d for d, shard in zip(deletions, killed) if counted[shard]]

    def demand(self, holds, why):
        demand(holds, f"{self.name}: {why}")

    def place_sum(self, page):
        return xxh3(int(self.id, 16).to_bytes(16, "little")
                    + self.store.manifest["table"].to_bytes(4, "little")
                    + self.number.to_bytes(8, "little") + page.to_bytes(4, "little"))

    def read_tail(self, tail):
        self.count, self.least, self.deleted, generation = (number(tail, at, 4)
                                                            for at in (0, 4, 8, 12))
        self.greatest, tail_sum = number(tail, 96, 4), number(tail, 112, 8)
        self.demand(tail[120:] == b"STEPWEND", "tail is missing")
        self.demand(tail_sum == xxh3(tail[:112]) ^ self.place_sum(2**32 - 1), "wrong checksum of the tail")
        self.demand(tail_sum == int(self.named["checksum"], 16)
                    and self.count == self.named["rows"], "tail differs from the manifest")
        self.demand(generation <= 15 and not any(tail[100:112]), "fields of the tail")
        self.footer_sum, self.page_sums = number(tail, 16, 8), number(tail, 24, 8)

    def read_header(self, header):
        store = self.store
        head = (header[:8], *(number(header, at, size) for at, size in
                              ((8, 4), (12, 4), (16, 4), (20, 4), (24, 8), (32, 16))))
        expected = (b"STEPWSEG", 3, store.manifest["table"], store.row_bytes, store.page,
                    self.number, int(self.id, 16))
        self.demand(head == expected, f"header {head}, not {expected}")
        self.demand(not any(header[48:-8]), "no zeros at the end of the header")

    def check_pages(self, pages):
        """Checks the checksums of the header page and of each data page, and the checksum of these."""
        size, sums = self.store.page, b""
        for page in range(pages + 1):
            data = self.data[size * page:size * (page + 1)]
            value = (xxh3(data[:-8]) ^ self.place_sum(page)).to_bytes(8, "little")
            self.demand(data[-8:] == value, f"wrong checksum of page {page}")
            sums += value
        self.demand(xxh3(sums) == self.page_sums, "wrong checksum of page checksums")

    def rows_of(self, data):
        """All rows on the data pages, including outdated versions."""
        store = self.store
        pages = np.frombuffer(data, np.uint8).reshape(-1, store.page)
        kept = np.ascontiguousarray(pages[:, :store.per_page * store.stride])
        kept = kept.reshape(-1, store.stride)
        rest = pages[:, store.per_page * store.stride:-8]
        self.demand(not kept[self.count:].any() and not rest.any(), "no zeros after the rows")
        read = kept[:self.count].view(store.dtype()[:4]).reshape(self.count)
        rows = np.empty(self.count, store.dtype())
        for field in ("key", "birth", "used", "lanes"):
            rows[field] = read[field]
        rows["number"], rows["row"] = self.number, np.arange(self.count)
        births = (int(rows["birth"].min()), int(rows["birth"].max())) if self.count else (0, 0)
        self.demand(births == (self.least, self.greatest) and (births[0] > 0 or not self.count),
                    f"births {births}, but the tail has {(self.least, self.greatest)}")
        return rows

    def read_footer(self, begin, rows):
        """Deletions, and the key shard of each row; checks the keys against the pages."""
        count, deleted = self.count, self.deleted
        blocks = -(-count // 512)
        sizes = [8 * count, 16 * deleted, count, 8 * blocks]
        ends = begin + np.cumsum(sizes)
        padded = -(-(int(ends[-1]) + 128) // 4096) * 4096
        self.demand(padded == len(self.data), f"{len(self.data)} bytes, not {padded}")
        keys, killed, shards, sums = (self.data[end - size:end] for end, size in zip(ends, sizes))
        self.demand(xxh3(killed + shards + sums) == self.footer_sum, "wrong checksum of the footer")
        for block in range(blocks):
            value = xxh3(keys[4096 * block:4096 * (block + 1)])
            self.demand(value == number(sums, 8 * block, 8), f"wrong checksum of block {block} of keys")
        shards = np.frombuffer(shards, np.uint8)
        self.demand(np.array_equal(shards, key_shards_of(rows["key"])), "key shards of rows")
        order = np.argsort(shards, kind="stable")
        self.demand(np.array_equal(np.frombuffer(keys, "<u8"), rows["key"][order]),
                    "footer and pages differ")
        deletions = [(number(killed, i, 8), number(killed, i + 8, 4), number(killed, i + 12, 4))
                     for i in range(0, len(killed), 16)]
        return deletions, shards


def page_bytes(row, segment):
    """Page size of a new store, by bytes of a row and of a segment."""
    stride = row + 16
    holds = -(-(stride + 8) // 4096) * 4096
    for page in range(holds, min(65536, segment // 8) + 1, 4096):
        if page / ((page - 8) // stride) + 9 <= max(1.10 * row, 1.06 * (row + 25)):
            return page
    return holds


def shards_of(fields, default):
    """For each key shard, whether `key_shards` of the fields includes it."""
    if "key_shards" not in fields:
        return default
    bits = int(fields["key_shards"], 16)
    return np.array([bits >> shard & 1 for shard in range(256)], bool)


def key_shards_of(keys):
    """Key shards of keys."""
    return np.array([xxh3(key.tobytes()) >> 56 for key in keys], np.uint8)
