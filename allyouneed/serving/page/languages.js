// Which languages and which model: what can be chosen follows from the models that are there.

import { byId, make } from "./dom.js";

const AUTO = "auto";

export class Languages {
  #models = [];
  #detected = null; // the pair of languages that the server found to be meant
  #from = byId("from");
  #to = byId("to");
  #model = byId("model");

  /** `onchange` is called after every choice. */
  constructor(onchange) {
    for (const select of [this.#from, this.#to, this.#model]) {
      select.addEventListener("change", () => {
        this.#detected = null;
        this.#draw();
        onchange();
      });
    }
  }

  set models(models) {
    this.#models = models;
    this.#draw();
  }

  get areKnown() {
    return this.#models.length > 0;
  }

  /** The fields of a request. */
  get request() {
    if (this.#from.value !== AUTO) return { model: this.#model.value };
    return this.#to.value === AUTO
      ? { source: AUTO }
      : { source: AUTO, target: this.#to.value };
  }

  /** The language of the text, if it is known. */
  get source() {
    return this.#from.value === AUTO ? this.#detected?.source : this.#from.value;
  }

  get target() {
    return this.#to.value === AUTO ? this.#detected?.target : this.#to.value;
  }

  get canSwap() {
    return this.#models.some(({ source, target }) =>
      source === this.target && target === this.source);
  }

  detect(pair) {
    this.#detected = pair;
    this.#draw();
  }

  swap() {
    const { source, target } = this;
    this.#from.value = target;
    this.#drawTargets();
    this.#to.value = source;
    this.#draw();
  }

  #draw() {
    const sources = named(this.#models, "source");
    const found = sources.get(this.#detected?.source);
    const auto = [AUTO, found ? `Detected: ${found}` : "Detect language"];
    fill(this.#from, sources.size > 1 ? [auto, ...sources] : [...sources]);
    this.#drawTargets();
    const fitting = this.#models.filter(({ source, target }) =>
      source === this.#from.value && target === this.#to.value);
    fill(this.#model, fitting.map(({ name }) => [name, name]));
    byId("which-model").hidden = fitting.length < 2;
    byId("swap").disabled = !this.canSwap;
  }

  #drawTargets() {
    const isAuto = this.#from.value === AUTO;
    const reachable = this.#models.filter(({ source }) => isAuto || source === this.#from.value);
    const targets = named(reachable, "target");
    const found = targets.get(this.#detected?.target);
    const auto = [AUTO, found ? `Automatic: ${found}` : "Automatic"];
    fill(this.#to, isAuto ? [auto, ...targets] : [...targets]);
  }
}

/** Code to name, in the order of the models. */
function named(models, side) {
  return new Map(models.map((model) => [model[side], model[`${side}_name`]]));
}

/** New options; what was chosen stays so if it is still there. */
function fill(select, entries) {
  const before = select.value;
  select.replaceChildren(...entries.map(([value, name]) => make("option", { value }, name)));
  if (entries.some(([value]) => value === before)) select.value = before;
}
