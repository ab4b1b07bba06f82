"use strict";
/* The list of causes and families to name from, searched by typing, and the names chosen so far, likeliest first;
   or the few causes that are on offer for one run. */

class Choice {
  /** host: holds [data-search], [data-list] and [data-chosen]. choices: {name, family, title} each. */
  constructor(host, choices, most) {
    Object.assign(this, { choices, most, chosen: [], offered: null });
    this.search = host.querySelector("[data-search]");
    this.list = host.querySelector("[data-list]");
    this.shown = host.querySelector("[data-chosen]");
    this.search.addEventListener("input", () => this._draw());
    this.search.addEventListener("keydown", (event) => {
      const first = this.list.querySelector("button[data-fits]:not([disabled])");
      if (event.key === "Enter" && this.search.value.trim() && first) {
        event.preventDefault();
        this.toggle(first.dataset.name);
      }
    });
    this.list.addEventListener("click", (event) => this._clicked(event));
    this.shown.addEventListener("click", (event) => this._clicked(event));
    this._draw();
  }

  /** Begin again. offered: names of causes of which one may be chosen; all names where it is left out. */
  clear(offered = null) {
    Object.assign(this, { chosen: [], offered });
    this.search.value = "";
    this._draw();
  }

  focus() { (this.offered ? this.list.querySelector("button") : this.search).focus(); }

  /** Choose a name, or take it back. Of those on offer another one takes its place. */
  toggle(name) {
    if (this.chosen.includes(name)) this.chosen = this.chosen.filter((other) => other !== name);
    else if (this.offered) this.chosen = [name];
    else if (this.chosen.length < this.most) this.chosen = [...this.chosen, name];
    this.search.value = "";
    this._draw();
  }

  _clicked(event) {
    const name = event.target.closest("button")?.dataset.name;
    if (name === undefined) return;
    this.toggle(name);
    if (this.offered) this.list.querySelector(`[data-name="${CSS.escape(name)}"]`).focus();
    else this.search.focus();
  }

  _draw() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (text) => words.every((word) => text.toLowerCase().includes(word));
    const families = [...new Set(this.choices.map((one) => one.family))];
    const full = !this.offered && this.chosen.length >= this.most;
    const button = (name, title, style, fit = true) =>
      together(html`<li><button type="button"${fit ? " data-fits" : ""} class="${style}" data-name="${name}" aria-pressed="${this.chosen.includes(name)}"`,
      html`${full && !this.chosen.includes(name) ? " disabled" : ""}><b>${name}</b> ${title}</button></li>`);
    const parts = families.map((family) => {
      const causes = this.choices.filter((one) => one.family === family && fits(`${one.name.replaceAll("_", " ")} ${one.name} ${one.title} ${family}`));
      if (!causes.length) return "";
      return together(button(family, "(the family)", "family", fits(family)), causes.map((one) => button(one.name, one.title, "cause")));
    });
    const unknown = fits("unknown none of these") ? button("unknown", "a cause that is not on this list", "family") : "";
    const few = this.offered?.map((name) => this.choices.find((one) => one.name === name) ?? { name, title: "" });
    const found = few ? few.map((one) => button(one.name, one.title, "cause")) : [...parts, unknown];
    fill(this.list, found.some(String) ? found : html`<li>No cause has these words.</li>`);
    fill(this.shown, this.chosen.length
      ? joined(this.chosen.map((name, i) => html`<button type="button" data-name="${name}" aria-label="take ${name} back">${i + 1}. ${name} &times;</button>`), " ")
      : "nothing named yet");
  }
}
