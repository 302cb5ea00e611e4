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

/** The words of a hypothesis, marked from the first to the last that differs from another's. */
function withDifferences({ words }, other) {
  const isSame = (at, shift) => words[at].text === other.words[at - shift]?.text;
  let begin = 0;
  while (begin < words.length && isSame(begin, 0)) begin += 1;
  let end = words.length;
  const shift = words.length - other.words.length;
  while (end > begin && end - shift > begin && isSame(end - 1, shift)) end -= 1;
  return words.flatMap(({ before, text }, at) =>
    [before, at < begin || at >= end ? text : make("em", {}, text)]);
}
