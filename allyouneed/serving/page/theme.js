// Light or dark: as the system has it, until the button is pressed; then as it was chosen last.

import { byId } from "./dom.js";

const CHOICE = "theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const choice = localStorage.getItem(CHOICE);
  return choice ? choice === "dark" : system.matches;
}

function show() {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  byId("theme").textContent = isDark() ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", `Change to ${isDark() ? "light" : "dark"} colours`);
}

byId("theme").addEventListener("click", () => {
  localStorage.setItem(CHOICE, isDark() ? "light" : "dark");
  show();
});
system.addEventListener("change", show);
show();
