"""Croissant metadata of a release: files with checksums, record sets, and the responsible-AI fields.

Formats: MLCommons, "Croissant Format Specification", version 1.1; "Croissant RAI Specification",
version 1.0. A test has MLCommons' own library validate it and read records through it.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from trainwreck.evaluation.dataset.schema import RUN_FIELDS, SIGNALS, Axis
from trainwreck.evaluation.files import sha256
from trainwreck.evaluation.release.facts import CREATORS, LICENCE_URL, TAGS, Facts

PARQUET = "application/x-parquet"  # the name that the reference library knows
# What a split is, in the vocabulary; calibration is what others call validation.
SPLITS = {"train": "cr:TrainingSplit", "calibration": "cr:ValidationSplit", "test": "cr:TestSplit"}

CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "arrayShape": "cr:arrayShape",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "containedIn": "cr:containedIn",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "description": {"@container": "@language"},
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isArray": "cr:isArray",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "name": {"@container": "@language"},
    "parentField": "cr:parentField",
    "path": "cr:path",
    "prov": "http://www.w3.org/ns/prov#",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}


def metadata(facts: Facts, root: Path, columns: Collection[str]) -> dict[str, Any]:
    """The JSON-LD of a release whose tables lie under `root`. columns: that its telemetry has."""
    content: dict[str, Any] = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "name": facts.name,
        "conformsTo": ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"],
        "description": facts.summary(),
        "license": LICENCE_URL,
        "creator": {"@type": "sc:Organization", "name": CREATORS},
        "version": facts.version,
        "citeAs": facts.citation(),
        "keywords": list(TAGS),
        "isLiveDataset": False,
        "prov:wasGeneratedBy": {"@type": "prov:Activity", "prov:label": "trainwreck generate plan.json"},
        "distribution": _files(root),
        "recordSet": [_splits(facts), _runs(), _telemetry(columns)],
    }
    content |= _responsible(facts)
    given = {"datePublished": facts.published, "url": facts.url}
    return content | {name: value for name, value in given.items() if value is not None}


def _responsible(facts: Facts) -> dict[str, Any]:
    return {
        "rai:dataCollection": facts.collection(),
        "rai:dataCollectionType": ["Experiments", "Software Collection"],
        "rai:dataCollectionMissingData": (
            "Losses on held-out sets are taken every so many steps and are empty between; visible_step is empty where "
            "nothing became visible or the base has too few healthy runs; no_return_step where it was not measured."
        ),
        "rai:dataCollectionRawData": "The recorder writes the signals as they are; there is no raw form before it.",
        "rai:dataPreprocessingProtocol": ["None: telemetry is as recorded, in float32."],
        "rai:dataAnnotationProtocol": facts.annotation(),
        "rai:dataAnnotationPlatform": ["None: labels by experiment."],
        "rai:annotationsPerItem": "One label a run, by injection and measurement.",
        "rai:annotatorDemographics": ["None: no person annotated."],
        "rai:machineAnnotationTools": [f"trainwreck {facts.version}"],
        "rai:dataUseCases": facts.uses(),
        "rai:dataBiases": facts.biases(),
        "rai:dataLimitations": facts.limits(),
        "rai:dataSocialImpact": (
            "None known beyond computing time saved where a failing run is stopped earlier; an alarm that is wrong "
            "wastes it."
        ),
        "rai:personalSensitiveInformation": ["None: no data about people."],
        "rai:dataReleaseMaintenancePlan": (
            "A release is never changed; a correction is a new release, made by the package's next version."
        ),
    }


def _files(root: Path) -> list[dict[str, Any]]:
    tables = [root / "runs.parquet", *sorted((root / "runs").glob("*.parquet"))]
    parts = sorted((root / "telemetry").rglob("*.parquet"))
    objects = [_file(path, root) for path in (*tables, *parts)]
    every = {
        "@type": "cr:FileSet",
        "@id": "telemetry-files",
        "name": "telemetry-files",
        "description": "All telemetry, by split and kind of run.",
        "encodingFormat": PARQUET,
        "includes": "telemetry/*/*/*.parquet",
    }
    return [*objects, every]


def _file(path: Path, root: Path) -> dict[str, Any]:
    name = path.relative_to(root).as_posix()
    return {
        "@type": "cr:FileObject",
        "@id": name.replace(" ", "_"),  # a kind may be two words, an id of Croissant not
        "name": name,
        "contentUrl": name,
        "contentSize": f"{path.stat().st_size} B",
        "encodingFormat": PARQUET,
        "sha256": sha256(path),
    }


def _splits(facts: Facts) -> dict[str, Any]:
    known = [split for split in facts.splits if split in SPLITS]
    fields = [("name", "sc:Text", "Name of the split."), ("url", "sc:URL", "What it is for.")]
    return {
        "@type": "cr:RecordSet",
        "@id": "splits",
        "name": "splits",
        "description": "What a run may be used for.",
        "dataType": "cr:Split",
        "key": {"@id": "splits/name"},
        "field": [
            {"@type": "cr:Field", "@id": f"splits/{name}", "name": name, "description": text, "dataType": kind}
            for name, kind, text in fields
        ],
        "data": [{"splits/name": split, "splits/url": SPLITS[split]} for split in known]
        + [{"splits/name": split, "splits/url": "cr:TestSplit"} for split in facts.splits if split not in known],
    }


def _runs() -> dict[str, Any]:
    fields = []
    for name, kind, meaning in RUN_FIELDS:
        field = _column("runs", name, _type(kind), meaning, {"fileObject": {"@id": "runs.parquet"}})
        if name == "split":
            field["references"] = {"field": {"@id": "splits/name"}}
        fields.append(field)
    return {
        "@type": "cr:RecordSet",
        "@id": "runs",
        "name": "runs",
        "description": "One row a run, with its label.",
        "key": {"@id": "runs/run_id"},
        "field": fields,
    }


def _telemetry(columns: Collection[str]) -> dict[str, Any]:
    source = {"fileSet": {"@id": "telemetry-files"}}
    fields = [
        # No "references" to the runs table: tools take it as an order to join the two.
        _column("telemetry", "run_id", "sc:Text", "The run; its label is the row of the runs table.", source),
        _column("telemetry", "step", "sc:Integer", "Training step, from 0.", source),
    ]
    for signal in (signal for signal in SIGNALS if signal.name in columns):
        field = _column("telemetry", signal.name, "sc:Float", f"{signal.meaning} ({signal.unit})", source)
        if signal.axis is not Axis.SCALAR:
            field |= {"isArray": True, "arrayShape": "-1"}
        fields.append(field)
    return {
        "@type": "cr:RecordSet",
        "@id": "telemetry",
        "name": "telemetry",
        "description": "One row a step of a run.",
        "key": [{"@id": "telemetry/run_id"}, {"@id": "telemetry/step"}],
        "field": fields,
    }


def _column(table: str, name: str, kind: str, meaning: str, source: dict[str, Any]) -> dict[str, Any]:
    return {
        "@type": "cr:Field",
        "@id": f"{table}/{name}",
        "name": name,
        "description": meaning,
        "dataType": kind,
        "source": source | {"extract": {"column": name}},
    }


def _type(kind: str) -> str:
    """Of an Arrow type."""
    return {"int32": "sc:Integer", "int64": "sc:Integer", "double": "sc:Float"}.get(kind, "sc:Text")
