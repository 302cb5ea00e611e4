// Threads from a word of the translation to the words it attended to, as opaque as its attention.

import { byId } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
let redraw = () => {};

/** `ends` are ranges of the source, each with its share, the greatest first. */
export function drawThreads(word, ends) {
  redraw = () => byId("threads").replaceChildren(...shapes(word, ends));
  redraw();
}

export function clearThreads() {
  redraw = () => {};
  byId("threads").replaceChildren();
}

new ResizeObserver(() => redraw()).observe(byId("spread"));

function shapes(word, ends) {
  const origin = byId("spread").getBoundingClientRect();
  const within = (box) => new DOMRect(box.x - origin.x, box.y - origin.y, box.width, box.height);
  const from = within(word.getBoundingClientRect());
  const isStacked = byId("right").offsetTop > byId("left").offsetTop;
  const thread = isStacked ? upwards : hanging;
  const drawn = ends.flatMap(({ range, share }) => {
    const boxes = [...range.getClientRects()].map(within);
    const opacity = share / ends[0].share;
    return [
      ...boxes.map((box) => shape("rect", { class: "end", ...sides(box), opacity })),
      shape("path", { d: thread(from, boxes[0]), opacity }),
    ];
  });
  return [shape("rect", { class: "start", ...sides(from) }), ...drawn];
}

const middle = ({ x, width }) => x + width / 2;

/** Between facing pages: from foot to foot, lower in the middle the longer it is. */
function hanging(from, to) {
  const [start, end] = [middle(from), middle(to)];
  const sag = 16 + (start - end) / 14;
  return `M${start} ${from.bottom}C${start} ${from.bottom + sag} ` +
    `${end} ${to.bottom + sag} ${end} ${to.bottom}`;
}

/** Between pages one above the other: from the head of a word to the foot of the other. */
function upwards(from, to) {
  const [start, end] = [middle(from), middle(to)];
  const halfway = (from.top + to.bottom) / 2;
  return `M${start} ${from.top}C${start} ${halfway} ${end} ${halfway} ${end} ${to.bottom}`;
}

const sides = ({ x, y, width, height }) => ({ x: x - 2, y, width: width + 4, height, rx: 3 });

function shape(name, attributes) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}
