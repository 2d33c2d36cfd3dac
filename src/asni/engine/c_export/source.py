"""The text of a C file as it grows: tables, the functions that are called, and the calls."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files

import numpy as np

from asni.engine.c_export.weights import Precision
from asni.engine.graph import Array
from asni.engine.steps import Shape

_WEIGHTS = {"exact": ("float", "float_weight"), "half": ("uint16_t", "half_weight"), "int8": ("int8_t", "int8_weight")}
"""The C type of a stored weight, and the function that reads one."""
_TYPES = {"float32": "float", "int32": "int", "uint16": "uint16_t", "uint8": "uint8_t", "int8": "int8_t"}
_LIBM = re.compile(r"\b(?:erff|expf|powf|sqrtf|tanhf)\(")
_LITERALS_IN_LINE = 16


class Source:
    """What the steps of a network add: each calls functions of kernels.c, with tables of its own."""

    def __init__(self, places: Mapping[str, str], shapes: Mapping[str, Shape]) -> None:
        self.places = places
        self.shapes = shapes
        self.tables: list[str] = []
        self.table_bytes = 0
        self.calls: list[str] = []
        self._called: set[str] = set()

    def table(self, name: str, values: Array) -> str:
        """Add a table of numbers; returns its name."""
        self.tables.append(table(name, values))
        self.table_bytes += values.nbytes
        return name

    def struct(self, kind: str, name: str, members: Iterable[object]) -> str:
        """Add a struct of kernels.c, whose members have four bytes on a small device; returns its address."""
        values = list(map(str, members))
        self.tables.append(f"static const struct {kind} {name} = {{{', '.join(values)}}};\n")
        self.table_bytes += 4 * len(values)
        return f"&{name}"

    def comment(self, text: str) -> None:
        self.calls.append(f"/* {text} */")

    def call(self, function: str, *arguments: object) -> None:
        """Call a function of kernels.c."""
        self._called.add(function)
        self.calls.append(f"{function}({', '.join(map(str, arguments))});")

    def require(self, function: str, *arguments: object) -> None:
        """Return from the exported function with 1 unless this function says yes."""
        self.call(function, *arguments)
        self.calls[-1] = f"if (!{self.calls[-1][:-1]})\n        return 1;"

    def kernels(self, precision: Precision) -> str:
        """The functions that are called, and what they need."""
        weight, reading = _WEIGHTS[precision]
        found = {name: text.replace("weight_of(", f"{reading}(") for name, text in _kernels().items()}
        wanted, waiting = set[str](), set(self._called)
        while waiting:
            name = waiting.pop()
            wanted.add(name)
            waiting |= {each for each in found if re.search(rf"\b{each}\b", _code(found[name]))} - wanted
        chosen = [text for name, text in found.items() if name in wanted]
        if any(re.search(r"\bweight\b", _code(text)) for text in chosen):
            chosen.insert(0, f"typedef {weight} weight;")
        return "\n\n".join(chosen)


def uses_libm(text: str) -> bool:
    """Whether a C file calls functions of the mathematical library."""
    return _LIBM.search(text) is not None


def number(value: float) -> str:
    """A float32 as C reads it, in as few digits as give back the same bits.

    >>> number(1.0), number(-0.1), number(1e-10), number(-float("inf"))
    ('1.0f', '-0.1f', '1e-10f', '-INFINITY')
    """
    if np.isnan(value):
        return "NAN"
    if np.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return f"{np.float32(value)!s}f"


def table(name: str, values: Array) -> str:
    """The definition of a table of numbers."""
    flat = values.reshape(-1)
    texts = list(map(number, flat) if flat.dtype == np.float32 else map(str, flat.tolist()))
    starts = range(0, len(texts), _LITERALS_IN_LINE)
    lines = "".join(f"    {', '.join(texts[start : start + _LITERALS_IN_LINE])},\n" for start in starts)
    return f"static const {_TYPES[values.dtype.name]} {name}[{flat.size}] = {{\n{lines}}};\n"


@cache
def _kernels() -> dict[str, str]:
    """The parts of kernels.c by name, without the comment at its head."""
    _, *parts = files(__package__).joinpath("kernels.c").read_text("ascii").strip().split("\n\n")
    named = re.compile(r"^(?:static \w+|struct|enum \{) (\w+)[ (]", re.MULTILINE)
    return {found[1]: part for part in parts if (found := named.search(part))}


def _code(text: str) -> str:
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
