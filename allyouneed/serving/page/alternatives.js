// Other ways to say a sentence: the best hypotheses of the search, to pick from.

import { byId, make } from "./dom.js";
import { chosen } from "./translation.js";

const score = (number) => number.toFixed(2).replace("-", "−");

/** Show those of one sentence; `onchoose` hears the number of the one that is picked. */
export function showAlternatives(translation, place, onchoose) {
  const sentence = translation.sentences[place];
  byId("alternatives").hidden = !(sentence?.hypotheses.length > 1);
  if (byId("alternatives").hidden) return;
  byId("alternatives").querySelector("legend").textContent =
    translation.nSentences > 1 ? `Other ways to say sentence ${place + 1}` : "Other ways to say it";
  byId("hypotheses").replaceChildren(...sentence.hypotheses.map((hypothesis, number) => {
    const input = make("input", { type: "radio", name: "hypothesis", value: number });
    input.checked = number === sentence.chosen;
    input.addEventListener("change", () => onchoose(number));
    return make("label", {}, input,
      make("span", { class: "text" }, ...withDifferences(hypothesis, chosen(sentence))),
      make("span", { class: "score", title: "log-probability by length" },
        score(hypothesis.score)));
  }));
}

/** The words of a hypothesis, those marked that the chosen one does not have. */
function withDifferences(hypothesis, other) {
  const known = new Set(other.words.map(({ text }) => text));
  return hypothesis.words.flatMap(({ before, text }) =>
    [before, known.has(text) ? text : make("em", {}, text)]);
}
