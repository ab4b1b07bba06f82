"""The documentation as a site: pages from the repository, the catalogue and docstrings, built strictly into site/.

    python docs/site/make.py                 # needs the extra `docs`
    python docs/site/make.py --pages FOLDER  # only the pages, which need no site generator

The pages lie as the files do in the repository, so that links between documents hold as they are. Generated ones
(catalogue, vocabulary, lessons, API) are not in git. Zensical is the successor of Material for MkDocs by the same
authors and reads a configuration of MkDocs; nothing here but the last command knows of it.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "lessons")]

import api  # noqa: E402
import catalogue  # noqa: E402
import notebooks  # noqa: E402
import references  # noqa: E402
import settings  # noqa: E402
import vocabulary  # noqa: E402

ROOT = HERE.parents[1]
WORK = ROOT / "build" / "site"
PACKAGES = ("evaluation", "kernels", "models", "scenarios")
LESSONS = ("reading_curves", "numerics", "attention_and_position", "data_and_resume", "save_the_run", "rewards")


def write_pages(folder: Path) -> None:
    """Every page and picture, into an empty folder."""
    generated = {"index.md": (ROOT / "README.md").read_text(encoding="utf-8"), vocabulary.PAGE: vocabulary.page()}
    generated |= {settings.PAGE: settings.page(), "glossary.md": glossary()}
    generated |= {name: (HERE / name).read_text(encoding="utf-8") for name in ("site.css", "site.js")}
    generated |= catalogue.pages() | api.pages() | {f"docs/lessons/{name}.md": lesson(name) for name in LESSONS}
    for path, content in generated.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content, encoding="utf-8")
    for source in kept():
        target = folder / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    catalogue.draw(folder)


def kept() -> list[Path]:
    """Files that go into the site as they are: documents, results with their pictures, notebooks."""
    documents = [ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md")]
    documents += [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "lessons").glob("*.md")]
    documents += results()
    named = {path for page in [ROOT / "README.md", *documents] for path in linked(page)}
    pictures = (ROOT / "results" / "demo" / "pictures").glob("*.png")
    return sorted({*documents, *named, *pictures} - {ROOT / "README.md"})


def results() -> list[Path]:
    """The pages of committed results, those of benchmarks last. Runs under results/ are not in git."""
    found = sorted((ROOT / "results").glob("*/README.md"))
    return [*found, *sorted((ROOT / "results" / "bench").glob("*/*/README.md"))]


def linked(page: Path) -> list[Path]:
    """The files of the repository that a document links to: schemas, examples, notebooks, pictures."""
    targets = re.findall(r"(?:\]\(|^\[[^\]]+\]: )([^)\s#]+)", page.read_text(encoding="utf-8"), re.M)
    files = [(page.parent / target).resolve() for target in targets if ":" not in target]
    return [file for file in files if file.is_file() and ROOT in file.parents]


def lesson(name: str) -> str:
    """A lesson as a page, without its answers."""
    parts = []
    for cell in notebooks.cells(notebooks.SOURCES / f"{name}.md"):
        if cell.kind in ("solution", "answer"):
            continue
        code = notebooks.blanked(cell.text) if cell.kind == "exercise" else cell.text
        parts.append(cell.text if cell.kind == "text" else f"```python\n{code}\n```")
    note = f"*This page is the notebook [{name}.ipynb]({name}.ipynb), to be read; the notebook is to be run.*"
    return "\n\n".join([parts[0], note, *parts[1:]]) + "\n"


def glossary() -> str:
    """The words of the pages that the commands write, of the same source."""
    source = (ROOT / "evaluation" / "pages" / "glossary.html.jinja").read_text(encoding="utf-8")
    return f"# Glossary\n\n{source[source.index('<dl>') : source.index('</details>')]}"


def menu() -> list[dict[str, Any]]:
    """The navigation."""
    families = [
        {family.capitalize(): [catalogue.family_path(family), *({Path(page).stem: page} for page in pages)]}
        for family, pages in catalogue.in_family()
    ]
    documents = sorted((ROOT / "docs").glob("*.md"))
    return [
        {"Start": ["index.md", {"Changelog": "CHANGELOG.md"}, {"Contributing": "CONTRIBUTING.md"}]},
        {
            "Catalogue": [
                catalogue.INDEX,
                *families,
                {"Vocabulary": vocabulary.PAGE},
                {"Glossary": "glossary.md"},
                {"Settings": settings.PAGE},
                {"References": references.PAGE},
            ]
        },
        {"Lessons": ["docs/lessons/teaching.md", *(f"docs/lessons/{name}.md" for name in LESSONS)]},
        {"Guide": [f"docs/{path.name}" for path in documents]},
        {
            "Results": [
                {str(path.parent.relative_to(ROOT / "results")): str(path.relative_to(ROOT))} for path in results()
            ]
        },
        {"API": ["api/index.md", *({title: api.path_of(title)} for title in api.MODULES)]},
    ]


def package(folder: Path) -> None:
    """The package as an import sees it, for whoever reads the source without importing it."""
    ignore = shutil.ignore_patterns("__pycache__", "sample", "*.npz", "*.parquet")
    shutil.copytree(ROOT / "trainwreck", folder / "trainwreck", ignore=ignore)
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / "trainwreck" / name, ignore=ignore)


def main() -> int:
    """The exit code of the site generator."""
    parser = argparse.ArgumentParser(description="Build the documentation's site.")
    parser.add_argument("--pages", type=Path, help="Write the Markdown pages here, and build nothing.")
    where: Path | None = parser.parse_args().pages
    if where is not None:
        if where.exists() and (not where.is_dir() or any(where.iterdir())):
            print(f"--pages: {str(where)!r} is not allowed; allowed: an empty or a new folder", file=sys.stderr)
            return 2
        write_pages(where)
        return 0
    import yaml

    shutil.rmtree(WORK, ignore_errors=True)
    write_pages(WORK / "pages")
    package(WORK / "package")
    configuration = yaml.safe_load((HERE / "mkdocs.yml").read_text(encoding="utf-8")) | {"nav": menu()}
    (WORK / "mkdocs.yml").write_text(yaml.safe_dump(configuration, sort_keys=False), encoding="utf-8")
    build = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "-f", str(WORK / "mkdocs.yml")]
    code = subprocess.run(build, check=False).returncode
    if code == 0:  # what was there before stays until there is something better
        shutil.rmtree(ROOT / "site", ignore_errors=True)
        shutil.move(WORK / "site", ROOT / "site")
    return code


if __name__ == "__main__":
    sys.exit(main())
