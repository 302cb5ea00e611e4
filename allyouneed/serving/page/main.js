// The page as a whole: what was typed goes to the server, what comes back is shown.

import { showAlternatives } from "./alternatives.js";
import { byId, make } from "./dom.js";
import { explore } from "./explorer.js";
import { Languages } from "./languages.js";
import { attempt } from "./notice.js";
import { describeModels, key, streamTranslation } from "./server.js";
import { Source } from "./source.js";
import { clearThreads, drawThreads } from "./threads.js";
import { percent, Translation } from "./translation.js";

const N_BEST = 4;
const N_LISTED = 4;
const PAUSE_IN_TYPING = 300; // milliseconds
const LONGEST_READ_OUT = 300; // characters
const HINT = "Choose a word to see what it attended to. Underlined: the model was less sure.";

const source = new Source((isComplete) => {
  showPointed(translation.pointed); // the words of the source have moved
  if (isComplete) translateNow();
  else translateSoon();
}, attempt);
const translation = new Translation(showPointed);
const languages = new Languages(() => {
  showLanguages();
  translateNow();
});
let model = null; // the one that made the translation
let place = 0; // the sentence whose alternatives are shown
let running = new AbortController();
let waiting;

// ---- translating ---------------------------------------------------------------------------

function translateSoon() {
  clearTimeout(waiting);
  waiting = setTimeout(translateNow, PAUSE_IN_TYPING);
}

function translateNow() {
  clearTimeout(waiting);
  running.abort();
  running = new AbortController();
  if (languages.areKnown) attempt(() => translate(running.signal));
}

async function translate(signal) {
  const { text } = source;
  const isBlank = !text.trim();
  byId("right").ariaBusy = !isBlank;
  if (isBlank) {
    translation.clear();
    showTranslation();
    announce();
    return;
  }
  source.check();
  try {
    const request = { ...languages.request, text, n_best: N_BEST };
    for await (const message of streamTranslation(request, signal)) {
      if ("model" in message) begin(message, text);
      translation.receive(message);
      showTranslation(message.index);
    }
    announce();
  } catch (error) {
    if (error.status === 403) byId("key-form").hidden = false;
    if (!signal.aborted) translation.age();
    throw error;
  } finally {
    if (!signal.aborted) byId("right").ariaBusy = false; // else another has begun
  }
}

function begin(message, text) {
  ({ model } = message);
  translation.of = text;
  byId("key-form").hidden = true;
  if (message.detected) languages.detect(message);
  showLanguages();
}

// ---- showing -------------------------------------------------------------------------------

/** Show what has changed: all of it, or one sentence. */
function showTranslation(changed) {
  place = Math.min(place, Math.max(0, translation.sentences.length - 1));
  for (const id of ["copy", "save", "explore"]) byId(id).disabled = translation.isEmpty;
  showPointed(translation.pointed);
  if (changed === undefined || changed === place) drawAlternatives();
}

function drawAlternatives() {
  showAlternatives(translation, place, (number) => {
    translation.choose(place, number);
    drawAlternatives();
    byId("hypotheses").querySelector(":checked").focus();
    announce();
  });
}

/** The word that is pointed at, how sure the model was, and threads to what it attended to. */
function showPointed(pointed) {
  clearThreads();
  byId("readout").textContent = translation.isEmpty ? "" : HINT;
  if (!pointed) return;
  const { element, word, sentence, start } = pointed;
  byId("readout").replaceChildren(make("b", {}, word.text),
    ` ${percent(word.confidence)} sure; attended to `,
    ...word.attention.slice(0, N_LISTED).flatMap(([at, share], rank) =>
      [rank ? ", " : "", make("i", {}, sentence.words[at].text), ` ${percent(share)}`]), ".");
  if (source.text === translation.of) {
    const places = extents(sentence.words, start);
    drawThreads(element,
      word.attention.map(([at, share]) => ({ range: source.range(...places[at]), share })));
  }
  if (pointed.isHeld && place !== pointed.place) {
    place = pointed.place;
    drawAlternatives();
  }
}

/** Where words begin and end, the first where its sentence does. */
function extents(words, start) {
  let end = start;
  return words.map(({ before, text }) => {
    const begin = end + before.length;
    end = begin + text.length;
    return [begin, end];
  });
}

function showLanguages() {
  source.language = languages.source;
  byId("translation").lang = byId("hypotheses").lang = languages.target ?? "";
}

function announce() {
  const { text, nSentences } = translation;
  say(text.length <= LONGEST_READ_OUT ? text : `Translated, ${nSentences} sentences.`);
}

/** For those who do not see the page. */
function say(text) {
  byId("announcement").textContent = text;
}

// ---- what the buttons do -------------------------------------------------------------------

byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  key.set(byId("key").value);
  translateNow();
});

function swap() {
  if (!languages.canSwap) return;
  const text = translation.text;
  languages.swap();
  showLanguages();
  if (text) source.text = text;
  translateNow();
}

async function copy() {
  try {
    await navigator.clipboard.writeText(translation.text);
  } catch { // there is no clipboard on pages that came from another machine without HTTPS
    getSelection().selectAllChildren(byId("translation"));
    document.execCommand("copy");
  }
  say("Copied.");
  byId("copy").textContent = "Copied";
  setTimeout(() => { byId("copy").textContent = "Copy"; }, 1500);
}

function save() {
  if (translation.isEmpty) return;
  const name = source.fileName ?? "translation.txt";
  const download = name.replace(/(\.[^.]*)?$/, `.${languages.target}$1`); // notes.de.txt
  const href = URL.createObjectURL(new Blob([translation.text], { type: "text/plain" }));
  make("a", { href, download }).click();
  URL.revokeObjectURL(href);
}

byId("swap").addEventListener("click", swap);
byId("copy").addEventListener("click", copy);
byId("save").addEventListener("click", save);
byId("explore").addEventListener("click", () => explore(model, translation.sentences[place]));
document.addEventListener("keydown", (event) => {
  if (!event.ctrlKey && !event.metaKey) return;
  const name = (event.shiftKey ? "shift " : "") + event.key.toLowerCase();
  const action = { enter: translateNow, s: save, "shift s": swap }[name];
  if (!action) return;
  event.preventDefault();
  action();
});

// ---- the start -----------------------------------------------------------------------------

attempt(async () => {
  const { models, limits, key_required: isKeyRequired } = await describeModels();
  languages.models = models;
  source.limit = limits.characters;
  byId("key-form").hidden = !isKeyRequired || Boolean(key.get());
  showLanguages();
  setTimeout(translateNow); // once this attempt is over: its success takes the notice away
});
