// The data, the state, the controls and the page as a whole; the views are in page_views.js.

const data = JSON.parse(document.getElementById("data").textContent);
const KINDS = {
  "encoder": ["source", "source", "Every source token, and the source tokens it draws on."],
  "decoder": ["translation", "translation so far",
    "Every token the decoder has read, and the earlier ones it draws on."],
  "encoder-decoder": ["translation", "source",
    "Every token of the translation as it is written, and the source tokens it draws on."],
};
const VIEWS = { lines: "Lines", heatmap: "Heat map", grid: "All heads", ranking: "Ranking" };
const FAINTEST = 0.01; // a line paler than this cannot be seen
const state = { ...data.start, heads: new Set(data.start.heads), pinned: null, hovered: null };

// ---- small tools ---------------------------------------------------------------------------

/** An element with attributes, listeners (onclick: …) and children; text is never markup. */
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  set(element, attributes);
  element.append(...children);
  return element;
}

function set(element, attributes) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key.startsWith("--")) element.style.setProperty(key, value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false) element.setAttribute(key, value);
  }
}

const byId = (id) => document.getElementById(id);
const percent = (share) => `${Math.round(share * 100)}%`;
const range = (n) => Array.from({ length: n }, (_, i) => i);
const isDark = () => document.documentElement.dataset.theme === "dark";
const palette = () => data.colours[isDark() ? "dark" : "light"];
const colour = (head) => palette()[head % palette().length];
const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

/** Black or white, whichever can be read on a colour. */
function readableOn(hex) {
  const [red, green, blue] = rgb(hex).map((channel) => (channel / 255) ** 2.2);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 ? "#000000" : "#ffffff";
}

const chosenHeads = () => [...state.heads].sort((a, b) => a - b);
const headNames = (heads) =>
  `${heads.length === 1 ? "head" : "mean of heads"} ${heads.map((head) => head + 1).join(", ")}`;

// ---- weights -------------------------------------------------------------------------------

/** Little-endian 16-bit shares of one, in the order layer, head, query, key. */
function unpack(map) {
  if (typeof map.weights === "string") {
    const bytes = Uint8Array.from(atob(map.weights), (letter) => letter.charCodeAt(0));
    map.weights = new Uint16Array(bytes.buffer);
    [map.nLayers, map.nHeads] = map.shape;
  }
  return map;
}

const currentMap = () => unpack(data[state.unit][state.kind]);

function weight(map, layer, head, query, key) {
  const row = (layer * map.nHeads + head) * map.queries.length + query;
  return map.weights[row * map.keys.length + key] / 65535;
}

/** What a token gives to, or as a key gets from, each token of the other side; mean of heads. */
function shares(map, focus) {
  const heads = chosenHeads();
  const others = focus.side === "query" ? map.keys : map.queries;
  return others.map((_, other) => {
    const [query, key] = focus.side === "query" ? [focus.place, other] : [other, focus.place];
    const each = heads.map((head) => weight(map, state.layer, head, query, key));
    return { each, mean: each.reduce((sum, share) => sum + share, 0) / (heads.length || 1) };
  });
}

function say(map, focus) {
  const [own, others] = focus.side === "query" ? [map.queries, map.keys] : [map.keys, map.queries];
  const best = shares(map, focus)
    .map(({ mean }, place) => ({ mean, name: others[place] }))
    .filter(({ mean }) => mean >= FAINTEST)
    .sort((a, b) => b.mean - a.mean)
    .slice(0, 5);
  const listed = best.map(({ mean, name }) => `${name} ${percent(mean)}`).join(", ");
  const verb = focus.side === "query" ? " attends to " : " is attended to by ";
  const rest = `${verb}${listed || "nothing much"} (${headNames(chosenHeads())}).`;
  byId("readout").replaceChildren(make("b", {}, own[focus.place]), rest);
}

// ---- controls ------------------------------------------------------------------------------

/** Entries: value, label and, where they differ from these, spoken name, fill, title. */
function choices(legend, type, name, entries, isChecked, onchange) {
  const keys = entries.map(({ value, label, spoken = label, fill, ...more }) =>
    make("label", { title: more.title || false }, make("input", { type, name, value,
      "aria-label": spoken, checked: isChecked(value), disabled: Boolean(more.disabled),
      onchange: (event) => onchange(value, event.target.checked) }),
    make("span", fill ? { "--colour": fill, "--on-colour": readableOn(fill) } : {}, label)));
  return make("fieldset", { id: `choose-${name}` }, make("legend", {}, legend),
    make("div", { class: "keys" }, ...keys));
}

function radio(legend, name, entries, current, onchange) {
  return choices(legend, "radio", name, entries, (value) => value === current, onchange);
}

function change(key) {
  return (value) => {
    state[key] = value;
    if (key === "kind") state.layer = Math.min(state.layer, currentMap().nLayers - 1);
    render(key);
  };
}

function drawControls() {
  const map = currentMap();
  const oneHead = state.view === "lines" || state.view === "heatmap";
  const all = range(map.nHeads);
  const entries = (names) => Object.entries(names).map(([value, label]) => ({ value, label }));
  const controls = [
    radio("View", "view", entries(VIEWS), state.view, change("view")),
    radio("Attention", "kind", Object.keys(KINDS).map((kind) => ({ value: kind, label: kind })),
      state.kind, change("kind")),
    radio("Tokens", "unit", [{ value: "subwords", label: "subwords" },
      { value: "words", label: "words", disabled: !data.words,
        title: data.words ? "Whole words" : "Here every word is one piece" }],
      state.unit, change("unit")),
  ];
  if (oneHead) {
    controls.push(
      radio("Layer", "layer", range(map.nLayers).map((layer) => ({ value: layer,
        label: String(layer + 1), spoken: `Layer ${layer + 1}` })), state.layer,
      change("layer")),
      choices("Heads", "checkbox", "heads", [
        ...all.map((head) => ({ value: head, label: String(head + 1),
          spoken: `Head ${head + 1}`, fill: colour(head) })),
        { value: "all", label: "all", spoken: "Every head" },
      ], (value) => value === "all" ? state.heads.size === map.nHeads : state.heads.has(value),
      (value, checked) => {
        if (value === "all") state.heads = new Set(checked ? all : []);
        else state.heads[checked ? "add" : "delete"](value);
        render("heads");
      }));
  }
  if (state.view === "ranking") {
    controls.push(radio("Most", "by", Object.keys(data.scores).map((name) =>
      ({ value: name, label: name })), state.by, change("by")));
  }
  byId("controls").replaceChildren(...controls);
}

// ---- the page ------------------------------------------------------------------------------

const SHOW = { lines: showLines, heatmap: showHeatMaps, grid: showGrid, ranking: showRanking };

/** Draw everything anew; the control that was changed keeps the focus. */
function render(changed) {
  const value = document.activeElement && document.activeElement.value;
  Object.assign(state, { pinned: null, hovered: null });
  drawControls();
  byId("caption").textContent = KINDS[state.kind][2];
  byId("theme").textContent = isDark() ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", `Change to ${isDark() ? "light" : "dark"} colours`);
  SHOW[state.view](currentMap());
  const controls = [...document.querySelectorAll(`#choose-${changed} input`)];
  const control = controls.find((it) => it.value === value) || controls.find((it) => it.checked);
  if (control) control.focus();
}

const systemIsDark = window.matchMedia("(prefers-color-scheme: dark)");
const useTheme = (dark) => {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  render();
};
systemIsDark.addEventListener("change", (event) => useTheme(event.matches));
byId("theme").addEventListener("click", () => { useTheme(!isDark()); byId("theme").focus(); });
byId("pair").replaceChildren(make("b", {}, data.source), " → ", make("b", {}, data.target));
document.title = `Attention: ${data.source}`;
window.addEventListener("resize", () => {
  if (state.view === "heatmap") showHeatMaps(currentMap());
  else drawLines();
});
// A page that frames this one names its theme in the address.
useTheme(location.hash ? location.hash === "#dark" : systemIsDark.matches);
