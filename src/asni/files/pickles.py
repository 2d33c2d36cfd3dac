"""What a pickle would take, before it is loaded."""

import pickletools
from dataclasses import dataclass
from mmap import mmap
from typing import Any

_FACTOR = 64
_MOST_DEEP = 1000
_PUT = ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE")
_GET = ("GET", "BINGET", "LONG_BINGET", "DUP")
_GROW = ("APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS", "BUILD")


@dataclass
class _Value:
    """A value that a pickle makes: its bytes, with shared parts counted wherever they occur, and its nesting."""

    size: int
    depth: int = 0

    def add(self, parts: "list[_Value]") -> None:
        self.size += sum(part.size for part in parts)
        self.depth = max([self.depth, *(1 + part.depth for part in parts)])
        if self.depth > _MOST_DEEP:
            raise ValueError(f"it nests more than {_MOST_DEEP} values")


def scan_pickle(data: bytes | mmap) -> set[str]:
    """The globals that the next pickle names; a ValueError if loading it could take far more than its length.

    Memory is taken for all places of the memo up to the last one. A tuple is hashed with all its members wherever they
    occur, so a key of a few bytes can take for ever or overflow the stack.
    """
    names: set[str] = set()
    stack: list[_Value] = []
    marks: list[int] = []
    memo: dict[int, _Value] = {}
    repeated = 0
    for operation, argument, _ in pickletools.genops(data):  # type: ignore[arg-type]
        if operation.name == "GLOBAL":
            names.add(str(argument).replace(" ", "."))
        if operation.name in _PUT:
            place = len(memo) if argument is None else int(argument)
            if not 0 <= place < len(data):
                raise ValueError(f"its memo has a place {place}")
            memo[place] = stack[-1]
        elif operation.name in _GET:
            stack.append(stack[-1] if argument is None else memo[int(argument)])
            repeated += stack[-1].size
            if repeated > _FACTOR * len(data):
                raise ValueError(f"its shared values, written out, have more than {_FACTOR} times its length")
        else:
            _execute(operation, argument, stack, marks)
    return names


def _execute(operation: pickletools.OpcodeInfo, argument: Any, stack: list[_Value], marks: list[int]) -> None:
    if operation.name == "MARK":
        marks.append(len(stack))
        return
    if operation.name == "POP" and marks[-1:] == [len(stack)]:
        marks.pop()
        return
    needs = operation.stack_before
    marked = pickletools.markobject in needs
    start = marks.pop() - needs.index(pickletools.markobject) if marked else len(stack) - len(needs)
    if start < 0:
        raise ValueError("it takes values that it did not make")
    parts = stack[start:]
    del stack[start:]
    if operation.name in _GROW:
        parts[0].add(parts[1:])
        stack.append(parts[0])
    elif operation.stack_after:
        value = _Value(1 + _length(argument))
        value.add(parts)
        stack.append(value)


def _length(argument: object) -> int:
    if isinstance(argument, int):
        return argument.bit_length() // 8
    return len(argument) if isinstance(argument, str | bytes | bytearray) else 0
