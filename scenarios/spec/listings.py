"""Facts of the catalogue as lists and dicts that are short where they are printed."""

import textwrap
from html import escape
from typing import TYPE_CHECKING, Any

from trainwreck.evaluation.short_forms import LINES, WIDTH, Names

if TYPE_CHECKING:
    import pandas as pd


class Rows(list[dict[str, Any]]):
    """One dict a thing, with the same keys in each; `to_frame()` is the table."""

    def to_frame(self) -> "pd.DataFrame":
        """A row a thing, a column a key."""
        import pandas as pd

        return pd.DataFrame(list(self))

    def __repr__(self) -> str:
        return repr(Names((row["id"], row) for row in self))

    def _repr_html_(self) -> str:
        return self.to_frame().to_html(max_rows=LINES)


class Page(dict[str, Any]):
    """The page of a scenario. Printed are its title and the beginning of each section."""

    def __repr__(self) -> str:
        sections = (f"  {name}: {textwrap.shorten(text, WIDTH)}" for name, text in self["sections"].items())
        return "\n".join([f"{self['id']}: {self['title']}", *sections, f"  keys: {', '.join(self)}"])

    def _repr_html_(self) -> str:
        sections = (f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in self["sections"].items())
        return f"<p><b>{escape(self['id'])}</b>: {escape(self['title'])}</p><dl>{''.join(sections)}</dl>"
