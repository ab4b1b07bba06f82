"""The JSON documents of a data set - manifest, catalogue, plan - and what shape each has."""

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from trainwreck.evaluation.dataset.schema import BY_NAME, SCHEMA_VERSION
from trainwreck.evaluation.errors import InputError, printable
from trainwreck.evaluation.files import read_json

FORMAT = "trainwreck-data-set"
PLAN_FORMAT = "trainwreck-plan"
LONGEST_PATH, LONGEST_PART = 1000, 255  # bytes of a file's name that systems take
IMPORTED = "imported"  # key of the manifest, see `readers.imported`

# A shape is a type, several of which one holds (a tuple), a list of one shape, {str: shape} for any keys, or a shape a
# key, where "?" after a key says that it may be missing.
Shape = Any

TEXTS: Shape = [str]
SPEC: Shape = {
    "scenario?": str, "role?": str, "seed?": int, "size?": str, "severity?": (str, None), "overrides?": TEXTS,
    "split?": str, "held_out?": str, "file?": str,
}  # fmt: skip
WHOLE_SPEC = frozenset(("scenario", "role", "seed", "size", "severity", "overrides", "split"))
BACKEND: Shape = {"device": str, "impl": str}
PLAN: Shape = {"format": str, "name?": str, "hash?": str, "backend?": BACKEND, "runs": [SPEC]}
PAGE: Shape = {
    "title": str, "family": str, "telling": str, "sections": {str: str}, "id?": str, "kind?": str, "made_of?": TEXTS,
    "sources?": TEXTS, "severities?": TEXTS, "sizes?": TEXTS, "proven?": TEXTS,
    "knobs_by_severity?": {str: {str: object}},
}  # fmt: skip
FILE: Shape = {"bytes": int, "sha256": str}
LABEL: Shape = {"outcome": (str, None), "failure_step": (int, None), "cause": (str, None), "cluster": (str, None)}
LOG: Shape = {
    "run_id": str, "log": str, "name": str, "format?": str, "step?": (str, None), "columns?": {str: str},
    "ignored?": {str: str}, "rules?": {str: object}, "signals?": {str: object}, "label": (LABEL, None),
}  # fmt: skip
MANIFEST: Shape = {
    "plan?": str, "plan_hash?": str, "backend?": BACKEND,
    "environment?": {"trainwreck?": str, "revision?": (str, None), "packages?": {str: str}},
    "release?": {"splits": {str: int}, "private": bool}, f"{IMPORTED}?": [LOG],
}  # fmt: skip


def misfit(value: Any, shape: Shape, place: str = "") -> str:
    """Where a value is not of a shape and what is allowed there, as "runs[3].seed: int"; empty where it is."""
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{place}: a list"
        return next((found for i, one in enumerate(value) if (found := misfit(one, shape[0], f"{place}[{i}]"))), "")
    if isinstance(shape, dict):
        return _misfit_of_keys(value, shape, place)
    if isinstance(shape, tuple):
        kinds = [kind for kind in shape if kind is not None]
        fits = (None in shape and value is None) or any(not misfit(value, kind, place) for kind in kinds)
        return "" if fits else f"{place}: {' or '.join('null' if kind is None else _called(kind) for kind in shape)}"
    if shape is object or (type(value) is shape and not (shape is str and _is_broken(value))):
        return ""
    return f"{place}: {_called(shape)}"


def _misfit_of_keys(value: Any, shape: dict[Any, Shape], place: str) -> str:
    if not isinstance(value, dict):
        return f"{place}: an object"
    if str in shape:
        if broken := [key for key in value if _is_broken(key)]:
            return f"{place}.{broken[0]!r}: text"
        every = ((f"{place}.{key!r}", one, shape[str]) for key, one in value.items())
    else:
        names = {key.removesuffix("?"): key for key in shape}
        missing = [name for name, key in names.items() if name not in value and key == name]
        if missing:
            return f"{place}: an object with {missing[0]}"
        every = ((f"{place}.{name}", value[name], shape[key]) for name, key in names.items() if name in value)
    return next((found for where, one, kind in every if (found := misfit(one, kind, where))), "")


def _is_broken(text: str) -> bool:
    """Whether it has half of a surrogate pair, which JSON can say and no file or terminal can."""
    return not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)


def _called(kind: Any) -> str:
    if isinstance(kind, dict):
        return "an object"
    return {str: "text", int: "a whole number", float: "a number", bool: "true or false"}[kind]


def _refuse_misfit(file: Path, value: Any, shape: Shape) -> None:
    found = misfit(value, shape)
    if found:
        place, _, allowed = found.rpartition(": ")
        raise InputError(f"{file}: damaged, {place.lstrip('.') or 'it'} is not allowed; allowed: {allowed}")


def read_manifest(file: Path) -> dict[str, Any]:
    """The manifest, known to be one of this version, with a size and a checksum for each file."""
    manifest = read_json(file)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputError(f"{file}: not a Trainwreck data set")
    version = manifest.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool | float):
        raise InputError(f"{file}: schema version {printable(version)} is not allowed; allowed: {SCHEMA_VERSION}")
    files = manifest.get("files")
    if not isinstance(files, dict) or "runs.parquet" not in files:
        raise InputError(f"{file}: damaged, it does not list runs.parquet")
    for name, facts in files.items():
        if misfit(facts, FILE):
            raise InputError(f"{file}: damaged, it has no size and checksum of {printable(name, 100)}")
        if not is_inside(name):
            raise InputError(f"{file}: damaged, {printable(name, 100)} is not in the folder")
    _refuse_misfit(file, manifest, MANIFEST)
    return manifest


def is_inside(name: str) -> bool:
    """Whether a file's name, with slashes, is one of a file in the folder or below."""
    parts = PurePosixPath(name).parts if name.isprintable() and len(name) <= LONGEST_PATH else ()
    inside = bool(parts) and not PurePosixPath(name).is_absolute() and ".." not in parts
    return inside and all(len(part.encode()) <= LONGEST_PART for part in parts)


class Pages(dict[str, dict[str, Any]]):
    """Scenario to its page. InputError for one that is not there."""

    def __init__(self, file: Path, pages: Mapping[str, dict[str, Any]]) -> None:
        super().__init__(pages)
        self.file = file

    def __missing__(self, name: str) -> dict[str, Any]:
        raise InputError(f"{self.file}: damaged, it has no page of {name}")


def read_pages(folder: Path) -> Pages:
    """The page of each scenario, of catalogue.json. InputError where there is none or a page is not of its shape."""
    file = folder / "catalogue.json"
    pages = read_json(file)
    _refuse_misfit(file, pages, {str: PAGE})
    for name, page in pages.items():
        if page["telling"] not in BY_NAME:
            raise InputError(f"{file}: damaged, telling of {printable(name)} is not allowed; allowed: a signal")
    return Pages(file, pages)


def read_plan(file: Path) -> dict[str, Any]:
    """A plan.json; InputError where it is none."""
    plan = read_json(file)
    if not isinstance(plan, dict) or plan.get("format") != PLAN_FORMAT:
        raise InputError(f"{file}: not a plan")
    if found := misfit(plan, PLAN):
        raise InputError(f"{file}: not a plan that this version reads ({found.lstrip('.')})")
    return plan
