// The attention explorer: a page that the server makes of one sentence and its translation.

import { byId, make } from "./dom.js";
import { asSentence, key, ping } from "./server.js";
import { chosen } from "./translation.js";

const FRAME = "explorer-frame";
const dialog = byId("explorer");
const content = dialog.querySelector(".content");

byId("close-explorer").addEventListener("click", () => dialog.close());

export async function explore(model, sentence) {
  content.replaceChildren();
  dialog.showModal();
  try {
    await ping(); // of a silent server a frame would show only what the browser says to it
  } catch (error) {
    show(error.message);
    return;
  }
  ask(model, sentence);
}

/** A form can be answered into a frame with a policy that lets the explorer's script run. */
function ask(model, sentence) {
  const fields = {
    model,
    source: sentence.source,
    tokens: JSON.stringify(chosen(sentence).tokens.map(({ text }) => text)),
    format: "html",
    api_key: key.get(),
  };
  const action = `v1/attention#${document.documentElement.dataset.theme}`; // to be shown in
  const form = make("form", { method: "post", action, target: FRAME, hidden: "" },
    ...Object.entries(fields).map(([name, value]) => make("input", { name, value })));
  // A new frame each time, since going back in an old one would be what the back button does.
  const frame = make("iframe", { name: FRAME, title: "Attention explorer" });
  content.append(frame, form);
  frame.addEventListener("load", () => showError(frame.contentDocument?.body.textContent));
  form.submit();
}

/** The explorer lives in a sandbox and cannot be read from here; what can be read is an error. */
function showError(answer) {
  if (!answer) return;
  try {
    show(asSentence(JSON.parse(answer).error));
  } catch {
    show("The server does not answer as it should."); // but something that stands before it does
  }
}

function show(message) {
  content.replaceChildren(make("p", { role: "alert" }, message));
}
