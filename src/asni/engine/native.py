"""The native core: a shared library beside this file, loaded when first used, for the instruction set of the processor.

The environment variable `ASNI_ISA` asks for another instruction set, or with `numpy` for none. Where the core is
missing, because no compiler worked when asni was installed, NumPy does its work, and one line on stderr says so.
"""

import ctypes
import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from asni.errors import EngineError, shown

ABI = 4
"""Which interface of the core this version of asni speaks; `asni_abi` of native/ must return the same."""

VARIABLE = "ASNI_ISA"
NUMPY = "numpy"
TITLES = {"v2": "SSE4.2", "v3": "AVX2", "v4": "AVX-512", "neon": "NEON", "generic": "plain C++"}
"""The instruction sets for which the core may be compiled."""

_ALIASES = {"avx2": "v3", "avx512": "v4"}
_NAMES_IN_CORE = {"v2": "x86_64_v2", "v3": "x86_64_v3", "v4": "x86_64_v4", "neon": "neon", "generic": "generic"}
_FILE = {"win32": "asni.dll", "darwin": "libasni.dylib"}.get(sys.platform, "libasni.so")

_log = logging.getLogger("asni.engine")
_lock = Lock()
_loaded: "tuple[ctypes.CDLL | None, Choice] | None" = None
_has_told = False


@dataclass(frozen=True)
class Choice:
    """The instruction set that the engine uses (`numpy`: no native core), its floats per vector, and the reason."""

    isa: str
    lanes: int
    why: str
    supported: Mapping[str, bool] = field(default_factory=dict)
    """All instruction sets, and whether the core and this processor have them; empty without a core."""

    @property
    def is_native(self) -> bool:
        """Whether the native core runs."""
        return self.isa != NUMPY


def library() -> ctypes.CDLL | None:
    """The native core, or None if NumPy must do its work; unless the user asked for that, the log says why, once."""
    global _has_told
    core, chosen = _once()
    if core is None and not os.environ.get(VARIABLE):
        with _lock:
            told, _has_told = _has_told, True
        if not told:
            _log.warning("asni: %s. NumPy runs instead, more slowly.", chosen.why)
    return core


def choice() -> Choice:
    """What the engine runs on, and why."""
    return _once()[1]


def _once() -> tuple[ctypes.CDLL | None, Choice]:
    global _loaded
    with _lock:
        if _loaded is None:
            _loaded = load(Path(__file__).parent, os.environ.get(VARIABLE, ""))
        return _loaded


def load(folder: Path, wanted: str) -> tuple[ctypes.CDLL | None, Choice]:
    """The core in a folder, running on the instruction set that is wanted; '' is the best of the processor."""
    name = _ALIASES.get(wanted, wanted)
    if name == NUMPY:
        return None, Choice(NUMPY, 1, f"{VARIABLE}={wanted}")
    core, lack = _opened(folder / _FILE)
    has = {} if core is None else {each: core.asni_supported(_in_core(each)) > 0 for each in TITLES}
    if core is not None and not any(has.values()):
        core, lack = None, "it needs a newer processor"
    if name and not has.get(name):
        raise _refused(wanted, has, lack)
    if core is None:
        return None, Choice(NUMPY, 1, f"no native core: {lack}", has)
    if name and core.asni_choose(_in_core(name)) != 0:
        raise _refused(wanted, has | {name: False}, lack)
    isa = name or _our_name(core.asni_isa())
    why = f"{VARIABLE}={wanted}" if name else f"{TITLES[isa]}: the best that this processor has"
    return core, Choice(isa, core.asni_lanes(), why, has)


def _opened(file: Path) -> tuple[ctypes.CDLL | None, str]:
    """The library, or why there is none."""
    if not file.is_file():
        return None, "no C++ compiler worked when asni was installed (install it again where g++ or clang works)"
    try:
        core = ctypes.CDLL(os.fspath(file))
    except OSError as error:
        return None, f"it cannot be loaded: {shown(error)}"
    _check(core, file)
    return core, ""


def _check(core: ctypes.CDLL, file: Path) -> None:
    """Declare the functions that are used here; refuse a library that another version of asni left behind."""
    try:
        core.asni_isa.restype = ctypes.c_char_p
        core.asni_supported.argtypes = core.asni_choose.argtypes = [ctypes.c_char_p]
        core.asni_lanes.argtypes = core.asni_abi.argtypes = []
        found = core.asni_abi()
    except AttributeError as error:
        raise EngineError(f"{shown(file)} is not the native core of asni ({error}). Install asni again.") from None
    if found != ABI:
        raise EngineError(
            f"{shown(file)} has version {found} of the core's interface, and this version of asni needs {ABI}. "
            "Install asni again."
        )


def _refused(wanted: str, has: Mapping[str, bool], lack: str) -> EngineError:
    if _ALIASES.get(wanted, wanted) not in TITLES:
        reason = "there is no such instruction set"
    else:
        reason = f"no native core: {lack}" if lack else "this processor or this build does not have it"
    possible = ", ".join([*(name for name, is_there in has.items() if is_there), NUMPY])
    return EngineError(f"{VARIABLE}={shown(wanted)}: {reason}. Possible here: {possible}.")


def _in_core(name: str) -> bytes:
    return _NAMES_IN_CORE[name].encode()


def _our_name(in_core: bytes) -> str:
    return next(name for name in TITLES if _in_core(name) == in_core)
