"""Pages out of the templates that lie in a package, all under the same rules."""

import base64
import json
import zlib
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup


def template(package: str, name: str, **filters: Callable[..., Any]) -> Template:
    """A template of a package; it may extend `document.html.jinja`. A missing value is an error; values are escaped."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package, "."), PackageLoader("trainwreck.evaluation.pages", ".")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= filters
    return environment.get_template(name)


def beside(package: str, *names: str) -> Markup:
    """Scripts or style sheets of a package as they are, one after the other."""
    return Markup("\n".join(files(package).joinpath(name).read_text(encoding="utf-8") for name in names))


def deflated(content: bytes) -> str:
    """Bytes as a page has them, not to be read in its source; `inflated` in `inflate.js` is the way back."""
    return base64.b64encode(zlib.compress(content, 9)).decode()


def in_script(content: Any) -> Markup:
    """JSON for a `<script>` element, which no "<" in it can end. ValueError for a NaN."""
    return Markup(json.dumps(content, allow_nan=False).replace("<", "\\u003c"))
