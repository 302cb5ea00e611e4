"use strict";

// The four views. Each draws the current map into the stage and says below it what to do;
// data, state, weights and small tools are in page.js, which stands in the same script.

// ---- lines ---------------------------------------------------------------------------------

function tokenButton(name, side, place) {
  const focus = { side, place };
  return make("li", {}, make("button", {
    type: "button", "data-side": side, "data-place": place,
    onpointerenter: () => hover(focus), onfocus: () => hover(focus),
    onclick: () => { state.pinned = samePlace(state.pinned, focus) ? null : focus; hover(focus); },
  }, make("span", { class: "name" }, name), make("span", { class: "share" })));
}

const samePlace = (a, b) => a && b && a.side === b.side && a.place === b.place;

function hover(focus) {
  state.hovered = focus;
  drawLines();
}

function showLines(map) {
  const [from, to] = KINDS[state.kind];
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("aria-hidden", "true"); // the read-out says the same in words
  const column = (names, side) => make("ol",
    { class: side === "query" ? "tokens queries" : "tokens" },
    ...names.map((name, place) => tokenButton(name, side, place)));
  const lines = make("div", { class: "lines", onpointerleave: () => hover(null),
    onfocusout: () => hover(null), onkeydown: moveAmongTokens },
  make("h2", {}, from), make("h2"), make("h2", {}, to),
  column(map.queries, "query"), svg, column(map.keys, "key"));
  byId("stage").replaceChildren(lines);
  drawLines();
}

function moveAmongTokens(event) {
  const { side, place } = event.target.dataset;
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const other = { ArrowRight: "key", ArrowLeft: "query" }[event.key];
  if (event.key === "Escape") { state.pinned = null; hover(null); }
  if (!step && !other) return;
  const next = step ? [side, Number(place) + step] : [other, place];
  const button = document.querySelector(`[data-side="${next[0]}"][data-place="${next[1]}"]`);
  if (button) { event.preventDefault(); button.focus(); }
}

function drawLines() {
  const svg = document.querySelector(".lines svg");
  if (!svg) return;
  const map = currentMap(), focus = state.hovered || state.pinned, heads = chosenHeads();
  const row = document.querySelector(".tokens button").offsetHeight;
  const spread = Math.min(2.6, row * 0.5 / Math.max(1, heads.length)); // heads side by side
  svg.style.height = `${row * Math.max(map.queries.length, map.keys.length)}px`;
  const lines = [];
  heads.forEach((head, number) => {
    const shift = row / 2 + (number - (heads.length - 1) / 2) * spread;
    for (let query = 0; query < map.queries.length; query++) {
      if (focus && focus.side === "query" && focus.place !== query) continue;
      for (let key = 0; key < map.keys.length; key++) {
        if (focus && focus.side === "key" && focus.place !== key) continue;
        const opacity = weight(map, state.layer, head, query, key);
        if (opacity < FAINTEST) continue;
        const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
        set(line, { x1: "0%", x2: "100%", y1: query * row + shift, y2: key * row + shift,
          stroke: colour(head), "stroke-opacity": opacity.toFixed(3),
          "stroke-dasharray": head < palette().length ? false : "6 3" }); // colours begin again
        lines.push(line);
      }
    }
  });
  svg.replaceChildren(...lines);
  svg.classList.toggle("focused", Boolean(focus));
  shadeTokens(map, focus, heads);
}

/** As in figures 3 to 5: the tokens at the other end are coloured, a stripe a head. */
function shadeTokens(map, focus, heads) {
  const found = focus && shares(map, focus);
  for (const button of document.querySelectorAll(".tokens button")) {
    const { side, place } = button.dataset;
    const isOther = focus && side !== focus.side;
    button.classList.toggle("chosen", Boolean(samePlace(focus, { side, place: Number(place) })));
    button.style.background = isOther ? stripes(found[place].each, heads) : "";
    const share = isOther && found[place].mean >= FAINTEST ? percent(found[place].mean) : "";
    button.lastElementChild.textContent = share;
  }
  if (focus) say(map, focus);
  else byId("readout").textContent = "Point at a token, tap it or tab to it to see only its lines.";
}

function stripes(each, heads) {
  const stops = each.flatMap((share, number) => {
    const alpha = Math.round(share * 150).toString(16).padStart(2, "0");
    const ends = [number, number + 1].map((edge) => `${(100 * edge) / heads.length}%`);
    return ends.map((end) => `${colour(heads[number])}${alpha} ${end}`);
  });
  return stops.length ? `linear-gradient(90deg, ${stops.join(", ")})` : "";
}

// ---- heat maps -----------------------------------------------------------------------------

function showHeatMaps(map) {
  const panels = chosenHeads().map((head) => heatPanel(map, head));
  byId("stage").replaceChildren(make("div", { class: "panels" }, ...panels));
  byId("readout").textContent = "Point at a cell, or focus a map and use the arrow keys. "
    + "The colour deepens with the root of the weight, so that small ones show.";
}

const STEPS = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] };

function heatPanel(map, head) {
  const size = `${map.queries.length} rows, ${map.keys.length} columns`;
  const canvas = make("canvas", { tabindex: "0", role: "img",
    "aria-label": `Heat map of head ${head + 1}: ${size}` });
  const layout = heatLayout(map);
  let cell = null;
  const select = (next) => {
    cell = next;
    paintHeat(canvas, map, head, layout, cell);
    if (!cell) return;
    byId("readout").replaceChildren(make("b", {}, map.queries[cell[0]]), " attends to ",
      make("b", {}, map.keys[cell[1]]),
      ` with ${(100 * weight(map, state.layer, head, ...cell)).toFixed(1)}% (head ${head + 1}).`);
  };
  set(canvas, {
    onpointermove: (event) => select(cellAt(event.offsetX, event.offsetY, map, layout)),
    onpointerleave: () => select(null),
    onkeydown: (event) => {
      const step = STEPS[event.key];
      if (!step) return;
      event.preventDefault();
      const [query, key] = cell ? [cell[0] + step[0], cell[1] + step[1]] : [0, 0];
      if (query in map.queries && key in map.keys) select([query, key]);
    },
  });
  select(null);
  const caption = make("figcaption", {}, `head ${head + 1}`);
  caption.style.color = colour(head);
  return make("figure", {}, caption, canvas);
}

const heatFont = () => `12px ${getComputedStyle(document.body).fontFamily}`;

function heatLayout(map) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = heatFont();
  const widest = (names) =>
    Math.min(120, 10 + Math.max(...names.map((name) => pen.measureText(name).width)));
  const left = widest(map.queries), top = widest(map.keys);
  const room = byId("stage").clientWidth - left - 2;
  const wanted = state.heads.size > 1 ? Math.min(room, 440) : room;
  const size = Math.max(13, Math.min(24, Math.floor(wanted / map.keys.length)));
  return { left, top, size };
}

function cellAt(x, y, map, { left, top, size }) {
  const [query, key] = [Math.floor((y - top) / size), Math.floor((x - left) / size)];
  return query in map.queries && key in map.keys ? [query, key] : null;
}

function paintHeat(canvas, map, head, { left, top, size }, cell) {
  const ratio = window.devicePixelRatio || 1;
  const width = left + size * map.keys.length + 2, height = top + size * map.queries.length + 2;
  Object.assign(canvas, { width: width * ratio, height: height * ratio });
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const style = getComputedStyle(document.body);
  const [ink, edge] = ["--ink", "--edge"].map((name) => style.getPropertyValue(name));
  Object.assign(pen, { font: heatFont(), textBaseline: "middle", strokeStyle: edge });
  pen.fillStyle = colour(head);
  map.queries.forEach((_, query) => map.keys.forEach((__, key) => {
    pen.globalAlpha = Math.sqrt(weight(map, state.layer, head, query, key));
    pen.fillRect(left + key * size, top + query * size, size, size);
  }));
  pen.globalAlpha = 1;
  pen.strokeRect(left + 0.5, top + 0.5, size * map.keys.length, size * map.queries.length);
  map.queries.forEach((name, query) => {
    pen.fillStyle = cell && cell[0] === query ? colour(head) : ink;
    pen.textAlign = "right";
    pen.fillText(name, left - 6, top + (query + 0.5) * size, left - 8);
  });
  map.keys.forEach((name, key) => {
    pen.save();
    pen.translate(left + (key + 0.5) * size, top - 6);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "left";
    pen.fillStyle = cell && cell[1] === key ? colour(head) : ink;
    pen.fillText(name, 0, 0, top - 8);
    pen.restore();
  });
  if (cell) {
    Object.assign(pen, { strokeStyle: ink, lineWidth: 1.5 });
    pen.strokeRect(left + cell[1] * size, top + cell[0] * size, size, size);
  }
}

// ---- all heads, and the ranking ------------------------------------------------------------

function thumbnail(map, layer, head) {
  const [width, height] = [map.keys.length, map.queries.length];
  const canvas = make("canvas", { width, height, "aria-hidden": "true" });
  const image = new ImageData(width, height);
  const own = rgb(colour(head));
  for (let query = 0; query < height; query++) {
    for (let key = 0; key < width; key++) {
      const alpha = 255 * Math.sqrt(weight(map, layer, head, query, key));
      image.data.set([...own, alpha], 4 * (query * width + key));
    }
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

function open(layer, head) {
  Object.assign(state, { view: "lines", layer, heads: new Set([head]) });
  render("view");
}

function showGrid(map) {
  const heads = range(map.nHeads);
  const first = make("tr", {}, make("td"),
    ...heads.map((head) => make("th", { scope: "col" }, `head ${head + 1}`)));
  const rows = range(map.nLayers).map((layer) => make("tr", {},
    make("th", { scope: "row" }, `layer ${layer + 1}`),
    ...heads.map((head) => make("td", {}, make("button", { type: "button", class: "thumbnail",
      "aria-label": `Open layer ${layer + 1}, head ${head + 1}`,
      onclick: () => open(layer, head) }, thumbnail(map, layer, head))))));
  byId("stage").replaceChildren(make("table", { class: "grid" }, first, ...rows));
  byId("readout").textContent = "A row of a picture is a token, a column what it attends to. "
    + "Pick a picture to open it.";
}

function showRanking(map) {
  const scores = map.scores[state.by];
  const ranked = scores
    .flatMap((row, layer) => row.map((score, head) => ({ layer, head, score })))
    .sort((a, b) => b.score - a.score);
  const cards = ranked.map(({ layer, head, score }) => make("li", {}, make("button", {
    type: "button", class: "card", onclick: () => open(layer, head),
    "aria-label": `Open layer ${layer + 1}, head ${head + 1}: ${state.by} ${score.toFixed(2)}`,
  }, thumbnail(map, layer, head), make("b", { class: "score" }, score.toFixed(2)),
  `layer ${layer + 1}, head ${head + 1}`, make("small", {}, otherScores(map, layer, head)))));
  byId("stage").replaceChildren(make("ol", { class: "cards" }, ...cards));
  byId("readout").textContent = `${state.by}: ${data.scores[state.by]}.`;
}

function otherScores(map, layer, head) {
  return Object.keys(data.scores).filter((name) => name !== state.by)
    .map((name) => `${name} ${map.scores[name][layer][head].toFixed(2)}`).join(" · ");
}
