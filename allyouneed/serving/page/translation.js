// The translation as it arrives, sentence by sentence, every word something to point at.

import { byId, make } from "./dom.js";

const LESS_SURE = 0.6;
const UNSURE = 0.3;

export class Translation {
  /** What it is the translation of. */
  of = "";
  #root = byId("translation");
  #layout = [];
  #sentences = [];
  #held = null; // the word that was clicked
  #hovered = null;
  #onpoint;

  /** `onpoint` hears which word is pointed at, held or left (null). */
  constructor(onpoint) {
    this.#onpoint = onpoint;
    const wordOf = ({ target }) => target.closest(".word");
    this.#root.addEventListener("pointerover", (event) => {
      this.#point({ hovered: wordOf(event) });
    });
    this.#root.addEventListener("pointerleave", () => this.#point({ hovered: null }));
    this.#root.addEventListener("click", (event) => this.#hold(wordOf(event)));
    this.#root.addEventListener("focusin", (event) => this.#walkTo(wordOf(event)));
    this.#root.addEventListener("focusout", () => this.#point({ hovered: null }));
    this.#root.addEventListener("keydown", (event) => this.#onkey(event));
  }

  get text() {
    return this.#layout
      .map((between, place) => between + (chosenText(this.#sentences[place]) ?? ""))
      .join("");
  }

  get isEmpty() {
    return this.#sentences.length === 0;
  }

  /** Those that have come. */
  get sentences() {
    return this.#sentences;
  }

  /** How many there will be. */
  get nSentences() {
    return Math.max(0, this.#layout.length - 1);
  }

  /** A line of the server: the layout of all, or one sentence. */
  receive(message) {
    if ("layout" in message) this.#begin(message);
    else this.#put(message);
  }

  clear() {
    this.#begin({ layout: [], sentences: 0 });
  }

  /** Show that all this belongs to an earlier text. */
  age() {
    for (const element of this.#root.children) element.classList.add("earlier");
  }

  /** Say a sentence in another way. */
  choose(place, hypothesis) {
    this.#sentences[place].chosen = hypothesis;
    this.#drawSentence(place);
  }

  /** The words stay until others come in their place, so that typing does not make them flicker. */
  #begin({ layout, sentences }) {
    this.#letGo();
    this.#layout = layout;
    this.#sentences.length = Math.min(this.#sentences.length, sentences);
    this.#root.replaceChildren();
    this.#sentences.forEach((_, place) => this.#drawSentence(place));
    this.age();
  }

  #put({ index, ...sentence }) {
    const before = this.#sentences[index];
    const wasChosen = before?.source === sentence.source && before.chosen > 0;
    this.#sentences[index] = { ...sentence, chosen: wasChosen ? again(before, sentence) : 0 };
    this.#drawSentence(index);
  }

  #drawSentence(place) {
    const old = this.#root.children[place];
    if (old?.contains(this.#held) || old?.contains(this.#hovered)) this.#letGo();
    const words = chosen(this.#sentences[place]).words.flatMap(({ before, text, confidence }) => [
      before,
      make("span", {
        class: "word",
        role: "button",
        tabindex: -1,
        "aria-pressed": false,
        "aria-description": `${percent(confidence)} sure`,
        "data-doubt": doubt(confidence),
      }, text),
    ]);
    const sentence = make("span", { class: "sentence", "data-place": place }, ...words);
    if (old) old.replaceWith(sentence);
    else this.#root.append(this.#layout[place], sentence);
    this.#walkTo(this.#root.querySelector(".word[tabindex='0']") ?? this.#words[0]);
  }

  get #words() {
    return [...this.#root.querySelectorAll(".word")];
  }

  /** One word is in the order of the tab key; the arrow keys lead to the others. */
  #walkTo(word) {
    if (!word) return;
    this.#root.querySelector(".word[tabindex='0']")?.setAttribute("tabindex", -1);
    word.setAttribute("tabindex", 0);
    if (word.matches(":focus-visible")) this.#point({ hovered: word });
  }

  #onkey(event) {
    const words = this.#words;
    const at = words.indexOf(event.target);
    const to = {
      ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: words.length - 1,
    }[event.key];
    if (event.key === "Enter" || event.key === " ") this.#hold(event.target);
    else if (event.key === "Escape") this.#hold(null);
    else if (to !== undefined) words[to]?.focus();
    else return;
    event.preventDefault();
  }

  /** Hold a word, or let it go if it was held. */
  #hold(word) {
    const held = word === this.#held ? null : word;
    this.#held?.setAttribute("aria-pressed", false);
    held?.setAttribute("aria-pressed", true);
    this.#point({ held, hovered: null });
  }

  #letGo() {
    this.#point({ held: null, hovered: null });
  }

  #point({ held = this.#held, hovered = this.#hovered }) {
    this.#held = held;
    this.#hovered = hovered;
    this.#onpoint(this.pointed);
  }

  /** The word that is pointed at, and where its sentence begins in the source. */
  get pointed() {
    const element = this.#hovered ?? this.#held;
    if (!element) return null;
    const span = element.parentElement;
    const place = Number(span.dataset.place);
    const sentence = this.#sentences[place];
    const word = chosen(sentence).words[[...span.children].indexOf(element)];
    const isHeld = element === this.#held;
    return { element, isHeld, place, word, sentence, start: this.#startOf(place) };
  }

  #startOf(place) {
    const earlier = this.#sentences.slice(0, place);
    const between = this.#layout.slice(0, place + 1);
    return [...between, ...earlier.map(({ source }) => source)].join("").length;
  }
}

export const chosen = (sentence) => sentence.hypotheses[sentence.chosen];
export const percent = (share) => `${Math.round(share * 100)}\u202f%`;
const chosenText = (sentence) => sentence && chosen(sentence).text;

function doubt(confidence) {
  if (confidence < UNSURE) return "much";
  return confidence < LESS_SURE ? "some" : "none";
}

/** The hypothesis that was chosen before, among those of the same sentence now; else the best. */
function again(before, sentence) {
  const text = chosenText(before);
  return Math.max(0, sentence.hypotheses.findIndex((hypothesis) => hypothesis.text === text));
}
