// What the page asks of its server, and what it makes of the answers.

const KEY = "api-key"; // in the tab's own storage, gone when the tab is closed

/** What went wrong, in words for people. `mayPass`: trying again later can help. */
export class Problem extends Error {
  constructor(message, { status = 0, mayPass = false, retryAfter = null } = {}) {
    super(message);
    Object.assign(this, { status, mayPass, retryAfter });
  }
}

export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (value) => sessionStorage.setItem(KEY, value),
};

/** The server's errors begin small and have no full stop. */
export const asSentence = (error) => `${error.charAt(0).toUpperCase()}${error.slice(1)}.`;

/** Throw if nobody is there. */
export const ping = () => ask("health");

export async function describeModels() {
  const answer = await ask("v1/models");
  return answer.json();
}

/** The lines of a translation as they come: first the layout, then sentence by sentence. */
export async function* streamTranslation(request, signal) {
  const answer = await ask("v1/stream", {
    method: "POST",
    headers: { "Content-Type": "application/json", ...authorization() },
    body: JSON.stringify({ ...request, details: true }),
    signal,
  });
  for await (const line of lines(answer.body)) {
    const message = JSON.parse(line);
    if (message.error) throw new Problem(asSentence(message.error));
    if (message.done) return;
    yield message;
  }
  throw silence(); // the last line never came
}

function authorization() {
  return key.get() ? { Authorization: `Bearer ${key.get()}` } : {};
}

async function ask(path, options = {}) {
  const answer = await reached(fetch(path, options));
  if (answer.ok) return answer;
  throw refusal(answer.status, answer.headers.get("Retry-After"), await errorOf(answer));
}

/** The network's own failures as problems; giving up is not one. */
async function reached(promise) {
  try {
    return await promise;
  } catch (error) {
    throw error.name === "AbortError" ? error : silence();
  }
}

function silence() {
  return new Problem("The server does not answer.", { mayPass: true });
}

async function errorOf(answer) {
  try {
    return (await answer.json()).error ?? "";
  } catch {
    return ""; // something between the page and the server answered in its place
  }
}

function refusal(status, retryAfter, said) {
  const mayPass = [429, 502, 503, 504].includes(status);
  const ours = {
    403: key.get() ? "The server does not know this key." : "The server asks for a key.",
    429: "That was too much for one minute.",
    503: "The server is busy.",
    504: "The server took too long.",
  };
  return new Problem(ours[status] ?? asSentence(said || `The server answered with error ${status}`),
    { status, mayPass, retryAfter: Number(retryAfter) || null });
}

async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reached(reader.read());
    if (done) return;
    const whole = (rest + value).split("\n");
    rest = whole.pop();
    yield* whole.filter(Boolean);
  }
}
