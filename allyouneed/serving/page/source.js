// The text to translate: typed, pasted, dropped or opened.

import { byId, make } from "./dom.js";
import { Problem } from "./server.js";

const EXAMPLES = {
  en: ["She gave the child the book that she had bought in Vienna.",
    "If it doesn't rain tomorrow, we will have breakfast in the garden."],
  de: ["Sie gab dem Kind das Buch, das sie in Wien gekauft hatte.",
    "Wenn es morgen nicht regnet, frühstücken wir im Garten."],
};
const number = new Intl.NumberFormat("en");

export class Source {
  /** The name of the file that was opened, while its text stands here unchanged. */
  fileName = null;
  #limit = Infinity;
  #area = byId("source");
  #mirror = byId("mirror");

  /** `onchange` hears of every change, and with `true` of those that are complete at once. */
  constructor(onchange, attempt) {
    const replace = (text) => {
      this.text = text;
      onchange(true);
    };
    const open = (file) => attempt(async () => {
      replace(await this.#read(file));
      this.fileName = file.name;
    });
    this.#area.addEventListener("input", () => {
      this.fileName = null;
      this.#draw();
      onchange(false);
    });
    byId("clear").addEventListener("click", () => {
      replace("");
      this.#area.focus();
    });
    byId("open").addEventListener("click", () => byId("file").click());
    byId("file").addEventListener("change", ({ target }) => {
      if (target.files.length) open(target.files[0]);
      target.value = ""; // the same file can be opened again
    });
    byId("examples").addEventListener("click", ({ target }) => {
      if (target.matches("button")) replace(target.textContent);
    });
    acceptDrops(byId("left"), open);
  }

  get text() {
    return this.#area.value.toWellFormed(); // half of a pair of surrogates is nothing to send
  }

  set text(text) {
    this.fileName = null;
    this.#area.value = text;
    this.#draw();
  }

  set limit(characters) {
    this.#limit = characters;
    this.#draw();
  }

  set language(code) {
    this.#area.lang = code ?? "";
    byId("examples").replaceChildren(...(EXAMPLES[code ?? "en"] ?? []).map((example) =>
      make("button", { type: "button", class: "plain", lang: code ?? "en" }, example)));
  }

  /** Throw if the server would refuse the text for its length. */
  check() {
    refuseLonger("The text", this.text, this.#limit);
  }

  /** The place of some characters on the screen. */
  range(start, end) {
    const range = new Range();
    range.setStart(this.#mirror.firstChild, start);
    range.setEnd(this.#mirror.firstChild, end);
    return range;
  }

  async #read(file) {
    const bytes = await file.arrayBuffer();
    let text;
    try {
      text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    } catch {
      throw new Problem(`${file.name} is not a text file in UTF-8.`);
    }
    if (text.includes("\0")) throw new Problem(`${file.name} is not a text file.`);
    refuseLonger(file.name, text, this.#limit);
    return text;
  }

  #draw() {
    const { text } = this;
    // The mirror gives the text area its height; the last line needs something to stand on.
    this.#mirror.textContent = `${text}\n`;
    byId("spread").dataset.amount = amount(text); // the less there is, the larger it is set
    byId("examples").hidden = Boolean(text);
    byId("clear").hidden = !text;
    const length = characters(text);
    byId("count").textContent = this.#limit === Infinity ? ""
      : `${number.format(length)} of ${number.format(this.#limit)} characters`;
    byId("count").classList.toggle("wrong", length > this.#limit);
  }
}

function amount(text) {
  if (text.length < 140) return "little";
  return text.length < 600 ? "some" : "much";
}

/** As the server counts them: an emoji is one. */
const characters = (text) => [...text].length;

function refuseLonger(name, text, limit) {
  const length = characters(text);
  if (length <= limit) return;
  throw new Problem(`${name} has ${number.format(length)} characters; ` +
    `this server takes ${number.format(limit)} at once.`);
}

function acceptDrops(element, open) {
  const over = (isOver) => element.classList.toggle("dropping", isOver);
  element.addEventListener("dragover", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return; // text goes where it is dropped
    event.preventDefault();
    over(true);
  });
  element.addEventListener("dragleave", () => over(false));
  element.addEventListener("drop", (event) => {
    over(false);
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    open(event.dataTransfer.files[0]);
  });
}
