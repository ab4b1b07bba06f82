"""Pages out of the templates that lie in a package, all under the same rules."""

import base64
import hashlib
import json
import zlib
from collections.abc import Callable, Iterable
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
    environment.globals["policy"] = policy
    return environment.get_template(name)


def policy(style: str, *scripts: str) -> Markup:
    """The Content-Security-Policy of a page that loads nothing, as an element for its head.

    It allows the page's own style sheet and scripts by their hashes, so that no other markup runs, whatever came into
    the page: not a script, and not an attribute such as `onload` or `style`.
    """
    content = (
        f"default-src 'none'; script-src {hashes(scripts)}; style-src {hashes([style])}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return Markup(f'<meta http-equiv="Content-Security-Policy" content="{content}">')


def hashes(texts: Iterable[str]) -> str:
    """Texts of inline elements as sources of a policy; 'none' where there is none."""
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts)
    return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"


def beside(package: str, *names: str) -> Markup:
    """Scripts or style sheets of a package as they are, one after the other."""
    return Markup("\n".join(files(package).joinpath(name).read_text(encoding="utf-8") for name in names))


def deflated(content: bytes) -> str:
    """Bytes as a page has them, not to be read in its source; `inflated` in `inflate.js` is the way back."""
    return base64.b64encode(zlib.compress(content, 9)).decode()


def in_script(content: Any) -> Markup:
    """JSON for a `<script>` element, which no "<" in it can end. ValueError for a NaN."""
    return Markup(json.dumps(content, allow_nan=False).replace("<", "\\u003c"))
