"""Read the bytes and integers of a section in order, never past its end."""

from asni.errors import PackError


def varint(number: int) -> bytes:
    """LEB128: seven bits per byte, the least significant first.

    >>> varint(5), varint(300)
    (b'\\x05', b'\\xac\\x02')
    """
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


class Reader:
    """Takes bytes off the front of a section; raises PackError if too few are left.

    >>> reader = Reader(b"\\xac\\x02rest")
    >>> reader.varint(), reader.take(2), reader.rest()
    (300, b're', b'st')
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        if count > len(self._data) - self._at:
            raise PackError(f"a section ends {count - len(self._data) + self._at} bytes too early")
        self._at += count
        return self._data[self._at - count : self._at]

    def byte(self) -> int:
        return self.take(1)[0]

    def varint(self) -> int:
        number = 0
        for shift in range(0, 63, 7):
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise PackError("an integer in a section is longer than 63 bits")

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)

    def end(self) -> None:
        if self._at != len(self._data):
            raise PackError(f"a section holds {len(self._data) - self._at} bytes too many")
