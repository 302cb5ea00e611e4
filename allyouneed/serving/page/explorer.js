// The attention explorer: a page of its own that the server makes of one sentence and its translation.

import { byId, make } from "./dom.js";
import { asSentence, key, ping } from "./server.js";
import { chosen } from "./translation.js";

const dialog = byId("explorer");
const frame = dialog.querySelector("iframe");
const problem = dialog.querySelector("[role=alert]");

byId("close-explorer").addEventListener("click", () => dialog.close());

// The explorer lives in a sandbox and cannot be read from here; what can be read is an error.
frame.addEventListener("load", () => {
  const answer = frame.contentDocument?.body.textContent;
  problem.hidden = !answer;
  frame.hidden = Boolean(answer);
  if (answer) problem.textContent = asSentence(JSON.parse(answer).error);
});

/** A form can be answered into a frame with a policy that lets the explorer's script run. */
export async function explore(model, sentence) {
  await ping(); // the browser's own page in the frame would be all that is seen of its silence
  const fields = {
    model,
    source: sentence.source,
    tokens: JSON.stringify(chosen(sentence).tokens.map(({ text }) => text)),
    format: "html",
    api_key: key.get(),
  };
  const action = `v1/attention#${document.documentElement.dataset.theme}`; // to be shown in
  const form = make("form", { method: "post", action, target: frame.name, hidden: "" },
    ...Object.entries(fields).map(([name, value]) => make("input", { name, value })));
  document.body.append(form);
  form.submit();
  form.remove();
  dialog.showModal();
}
