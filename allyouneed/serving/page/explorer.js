// The attention explorer: a page of its own that the server makes of one sentence and its translation.

import { byId, make } from "./dom.js";
import { key } from "./server.js";
import { chosen } from "./translation.js";

const dialog = byId("explorer");
const frame = dialog.querySelector("iframe");

byId("close-explorer").addEventListener("click", () => dialog.close());

/** A form can be answered into a frame with a policy that lets the explorer's script run. */
export function explore(model, sentence) {
  const fields = {
    model,
    source: sentence.source,
    tokens: JSON.stringify(chosen(sentence).tokens.map(({ text }) => text)),
    format: "html",
    api_key: key.get(),
  };
  const action = `v1/attention#${document.documentElement.dataset.theme}`; // it is shown in
  const form = make("form", { method: "post", action, target: frame.name, hidden: "" },
    ...Object.entries(fields).map(([name, value]) => make("input", { name, value })));
  document.body.append(form);
  form.submit();
  form.remove();
  dialog.showModal();
}
