"use strict";
/* Light, dark or as the system has it: every button with `data-theme-switch` goes through the three.
   The choice is kept in localStorage where the browser allows that (a file opened from disk often may not). */

const THEMES = ["auto", "light", "dark"];

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  for (const button of document.querySelectorAll("[data-theme-switch]")) {
    button.textContent = `Theme: ${theme}`;
    button.dataset.themeSwitch = theme;
  }
  document.dispatchEvent(new CustomEvent("theme", { detail: theme }));
}

function storedTheme() {
  try {
    const theme = localStorage.getItem("trainwreck-theme");
    return THEMES.includes(theme) ? theme : "auto";
  } catch {
    return "auto";
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-theme-switch]");
  if (!button) return;
  const theme = THEMES[(THEMES.indexOf(button.dataset.themeSwitch || "auto") + 1) % THEMES.length];
  try {
    localStorage.setItem("trainwreck-theme", theme);
  } catch { /* it then holds for this view only */ }
  setTheme(theme);
});
document.addEventListener("DOMContentLoaded", () => setTheme(storedTheme()));
