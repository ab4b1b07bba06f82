"use strict";
/* Markup that escapes by construction. Text becomes markup through `html` alone, which escapes whatever is put into it,
   and gets into the page through `fill` alone, which escapes what is no markup. No other script writes innerHTML.

   html`<b>${name}</b>`                    markup; of a list each part, one after the other
   together(html`<b>a</b>`, "text", list)  the parts one after the other, as markup
   joined(list, ", ")                      the same with a separator
   fill(node, ...parts)                    the parts as what is in the node */

class Markup {
  constructor(text) { this.text = text; }
  toString() { return this.text; }
}

const SIGNS = /[&<>"']/g;

function marked(part) {
  if (part instanceof Markup) return part.text;
  if (Array.isArray(part)) return part.map(marked).join("");
  return String(part).replace(SIGNS, (sign) => `&#${sign.charCodeAt(0)};`);
}

const html = (texts, ...parts) => new Markup(texts.map((text, i) => text + (i < parts.length ? marked(parts[i]) : "")).join(""));
const together = (...parts) => new Markup(marked(parts));
const joined = (list, separator) => new Markup(list.map(marked).join(marked(separator)));

function fill(node, ...parts) { node.innerHTML = marked(parts); }
