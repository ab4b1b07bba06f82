"""The API reference: pages of directives that mkdocstrings fills from docstrings."""

import trainwreck

# Modules whose public names are documented besides those of `import trainwreck`, by page.
MODULES = {
    "Data sets and telemetry": ("evaluation.dataset.dataset", "evaluation.dataset.trace", "evaluation.pages.figures"),
    "Detectors and scoring": ("evaluation.detectors.base", "evaluation.scoring.scorecard", "evaluation.replay.alarms"),
    "Scenarios": (
        "scenarios.views.session",
        "scenarios.spec.scenario",
        "scenarios.spec.faults",
        "scenarios.spec.run_spec",
        "scenarios.config.sizes",
    ),
    "Monitoring": ("evaluation.live.monitor", "module_signals", "scenarios.preflight.check"),
    "Rescue": (
        "scenarios.rescue.actions",
        "scenarios.rescue.episode",
        "scenarios.rescue.observation",
        "scenarios.rescue.outcomes",
        "scenarios.rescue.board",
        "scenarios.rescue.policies",
    ),
}
WITHOUT_HEADING = "    options:\n      show_root_heading: false\n"


def pages() -> dict[str, str]:
    """Path to content."""
    names = sorted(trainwreck._HOMES, key=str.lower)
    homes = [f"trainwreck.{trainwreck._HOMES[name]}.{name}" for name in names]
    made = {"api/index.md": "# import trainwreck\n\n" + "\n".join(f"::: {home}\n" for home in homes)}
    for title, modules in MODULES.items():
        listed = (f"## {module}\n\n::: trainwreck.{module}\n{WITHOUT_HEADING}" for module in modules)
        made[path_of(title)] = f"# {title}\n\n" + "\n".join(listed)
    return made


def path_of(title: str) -> str:
    """The page of a group of modules."""
    return f"api/{title.lower().replace(' ', '-')}.md"
