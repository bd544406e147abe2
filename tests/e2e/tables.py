"""Sorted tables, made and read by what examples/compaction/README.md says of their bytes; nothing here is shared with
the program."""

import struct

MAGIC = b"TideSST\n"
FOOTER = struct.Struct("<IIQQII8s")  # index length, blocks, entries, sequence, version, crc, magic


def _crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC = _crc_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def sealed(data):
    return data + struct.pack("<I", crc32c(data))


def unsealed(data):
    content, crc = data[:-4], struct.unpack("<I", data[-4:])[0]
    assert crc32c(content) == crc, "a checksum does not match"
    return content


def make(content, sequence, block_size=1000):
    """A table of `{key: value}`, both bytes; a value of None is a tombstone."""
    keys = sorted(content)
    blocks, index = [], b""
    block = b""
    for number, key in enumerate(keys):
        value = content[key]
        block += struct.pack("<BHI", value is not None, len(key), len(value or b"")) + key + (value or b"")
        if len(block) >= block_size or number == len(keys) - 1:
            blocks.append(sealed(block))
            index += struct.pack("<IH", len(blocks[-1]), len(key)) + key
            block = b""
    first = keys[0] if keys else b""
    index = sealed(struct.pack("<H", len(first)) + first + index)
    footer = struct.pack("<IIQQI", len(index), len(blocks), len(keys), sequence, 1)
    return b"".join(blocks) + index + sealed(footer) + MAGIC


def read(data):
    """The sequence and the content of a table, each rule of the format checked."""
    length, count, entries, sequence, version, _, magic = FOOTER.unpack(data[-FOOTER.size :])
    assert (magic, version) == (MAGIC, 1)
    unsealed(data[-FOOTER.size : -len(MAGIC)])
    end = len(data) - FOOTER.size - length
    index = unsealed(data[end : end + length])
    (first,) = struct.unpack_from("<H", index)
    first_key, at = index[2 : 2 + first], 2 + first
    content, keys, offset = {}, [], 0
    while at < len(index):
        block_length, key_length = struct.unpack_from("<IH", index, at)
        last_key, at = index[at + 6 : at + 6 + key_length], at + 6 + key_length
        block = unsealed(data[offset : offset + block_length])
        offset, count, place = offset + block_length, count - 1, 0
        while place < len(block):
            kind, key, value = struct.unpack_from("<BHI", block, place)
            start = place + 7
            keys.append(block[start : start + key])
            content[keys[-1]] = block[start + key : start + key + value] if kind else None
            place = start + key + value
        assert keys[-1] == last_key
    assert (offset, count, len(keys)) == (end, 0, entries)
    assert keys == sorted(set(keys)) and keys[0] == first_key
    return sequence, content
