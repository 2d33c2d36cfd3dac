"""The command that says what asni found here: versions, the processor, the native core, the extras."""

import platform
import re
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any

from asni.cli.options import AsJson
from asni.cli.output import print_json, say
from asni.errors import EngineError

PACKAGES = ("asni", "torch", "numpy")
FOR_DEVELOPERS = ("dev", "docs")


def doctor(as_json: AsJson = False) -> None:
    """Show versions, the processor and what the engine runs on.

    The engine takes the best instruction set of the processor. ASNI_ISA asks for another one: v2, v3 (or avx2), v4 (or
    avx512), neon, generic, or numpy for no native core.

    Example: asni doctor
    """
    found = {
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
        "machine": _machine(),
        "engine": _engine(),
        "extras": _extras(requires("asni") or []),
        "datasets": _datasets(),
    }
    if as_json:
        print_json(found)
    else:
        _print(found)


def _version(package: str) -> str | None:
    # From the metadata: importing torch takes seconds.
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _machine() -> dict[str, Any]:
    from asni.engine import machine

    return {"processor": machine.processor(), "cores": machine.cores(), "memory": machine.memory()}


def _engine() -> dict[str, Any]:
    from asni.engine import native

    try:
        choice = native.choice()
    except EngineError as error:
        # The other lines may show what is wrong.
        return {"isa": None, "why": str(error), "lanes": None, "native": False, "supported": {}}
    return {
        "isa": choice.isa,
        "why": choice.why,
        "lanes": choice.lanes,
        "native": choice.is_native,
        "supported": dict(choice.supported),
    }


def _extras(requirements: list[str]) -> dict[str, dict[str, str | None]]:
    """The packages of each extra, and their versions if they are installed.

    >>> _extras(["torch>=2.6", 'no-such-package>=1; extra == "serve"'])
    {'serve': {'no-such-package': None}}
    """
    extras: dict[str, dict[str, str | None]] = {}
    for requirement in requirements:
        name, extra = re.match(r"[\w.-]+", requirement), re.search(r"extra == ['\"]([\w-]+)['\"]", requirement)
        if name and extra and extra[1] not in FOR_DEVELOPERS:
            extras.setdefault(extra[1], {})[name[0]] = _version(name[0])
    return extras


def _datasets() -> str:
    from asni.datasets.cache import cache_folder

    return str(cache_folder(""))


def _print(found: dict[str, Any]) -> None:
    python, ours, torch, numpy = found["versions"].values()
    _say("asni", f"{ours} (Python {python}, torch {torch}, numpy {numpy})")
    machine = found["machine"]
    memory = f", {machine['memory'] / 2**30:.1f} GiB of memory" if machine["memory"] else ""
    _say("processor", f"{machine['processor']}, {machine['cores']} core{'s' * (machine['cores'] > 1)}{memory}")
    _print_engine(found["engine"])
    for extra, packages in found["extras"].items():
        listed = ", ".join(f"{name} {number or 'is not installed'}" for name, number in packages.items())
        _say(extra, listed + f": pip install 'asni[{extra}]'" * (None in packages.values()))
    _say("datasets", found["datasets"])


def _print_engine(engine: dict[str, Any]) -> None:
    lanes = f", {engine['lanes']} floats at once" if engine["native"] else ""
    _say("engine", f"{engine['isa']}{lanes} ({engine['why']})" if engine["isa"] else engine["why"])
    others = [name for name, is_there in engine["supported"].items() if is_there and name != engine["isa"]]
    if engine["native"]:
        _say("", f"ASNI_ISA can ask for {', '.join([*others, 'numpy'])}")


def _say(label: str, text: str) -> None:
    say(text, lead=f"{label:<14}")
