// A table that is wider than its column scrolls, and so has to be reached by the keyboard.
addEventListener("load", () => {
  for (const wrap of document.querySelectorAll(".md-typeset__scrollwrap")) wrap.tabIndex = 0;
});
