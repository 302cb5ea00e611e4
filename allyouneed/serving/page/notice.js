// Whatever can fail goes through `attempt`, so that it fails visibly and can be tried again.

import { byId } from "./dom.js";
import { Problem } from "./server.js";

const FIRST_PAUSE = 2; // seconds; doubled with every failure in a row
const LONGEST_PAUSE = 30;

let timer;
let failures = 0;

/** Run `action`; if there is a problem, show it, and run it again when asked, or soon. */
export async function attempt(action) {
  clearTimeout(timer);
  try {
    await action();
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!(error instanceof Problem)) throw error;
    report(error, () => attempt(action));
    return;
  }
  failures = 0;
  byId("notice").hidden = true;
}

function report(problem, again) {
  const notice = byId("notice");
  const promise = problem.mayPass ? " Trying again soon." : "";
  notice.querySelector("p").textContent = problem.message + promise;
  notice.hidden = false;
  byId("again").hidden = !problem.mayPass;
  byId("again").onclick = again;
  if (!problem.mayPass) return;
  const pause = problem.retryAfter ?? Math.min(FIRST_PAUSE * 2 ** failures, LONGEST_PAUSE);
  failures += 1;
  timer = setTimeout(again, pause * 1000);
}
