// Sends the requests of the forms in the documentation of the API, and shows the responses as text.

// Longer responses are cut off.
const MAX_SHOWN = 64 * 1024;
const TEXT = /^(text\/|application\/(json|problem\+json|x-ndjson|jsonl|openmetrics-text))/i;

function requestOf(form) {
  const { method } = form.dataset;
  let path = form.dataset.path;
  const query = new URLSearchParams();
  const headers = new Headers();
  let body;
  for (const field of form.querySelectorAll("[data-in]")) {
    const value = field.value;
    const name = field.dataset.name;
    if (field.dataset.in === "body") {
      if (value !== "") body = value;
      headers.set("Content-Type", field.dataset.type);
    } else if (value === "") {
      continue;
    } else if (field.dataset.in === "path") {
      const parts = "slashes" in field.dataset ? value.split("/") : [value];
      path = path.replace(`{${name}}`, () => parts.map(encodeURIComponent).join("/"));
    } else if (field.dataset.in === "header") {
      headers.set(name, value);
    } else {
      query.append(name, value);
    }
  }
  const url = query.size > 0 ? `${path}?${query}` : path;
  return { url, options: { method, headers, body, credentials: "same-origin", cache: "no-store" } };
}

// Where a response is shown. Everything in it is text.
class ResponseView {
  constructor(form) {
    const find = (name) => form.parentElement.querySelector(`[data-try-${name}]`);
    this.result = find("result");
    this.status = find("status");
    this.headers = find("headers");
    this.body = find("body");
    this.note = find("note");
  }

  clear(status) {
    this.result.hidden = false;
    this.status.textContent = status;
    for (const part of [this.headers, this.body, this.note]) part.textContent = "";
  }

  head(response, milliseconds) {
    this.status.textContent = `${response.status} ${response.statusText}, after ${Math.round(milliseconds)} ms`;
    this.headers.textContent = [...response.headers].map(([name, value]) => `${name}: ${value}`).join("\n");
  }

  add(text) {
    this.body.append(text);
  }
}

async function showBody(response, view) {
  const type = response.headers.get("content-type") ?? "";
  const isText = TEXT.test(type) || type === "";
  const reader = response.body?.getReader();
  if (!reader) return;
  const decoder = new TextDecoder();
  let bytes = 0;
  let shown = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    bytes += value.byteLength;
    if (isText) {
      const text = decoder.decode(value, { stream: true }).slice(0, MAX_SHOWN - shown);
      shown += text.length;
      view.add(text);
    }
    if (isText ? shown >= MAX_SHOWN : bytes >= MAX_SHOWN) {
      await reader.cancel();
      view.note.textContent = isText
        ? `The first ${MAX_SHOWN / 1024} KiB are shown.`
        : `More than ${MAX_SHOWN / 1024} KiB of ${type} are not shown.`;
      return;
    }
  }
  if (!isText) view.note.textContent = `${bytes} bytes of ${type} are not shown.`;
  else if (bytes === 0) view.note.textContent = "The response has no body.";
  else if (type.includes("json")) indent(view.body);
}

function indent(element) {
  try {
    element.textContent = JSON.stringify(JSON.parse(element.textContent), null, 2);
  } catch {
    // Several lines of JSON stay as they are.
  }
}

const running = new WeakMap();

async function send(form) {
  running.get(form)?.abort();
  const abort = new AbortController();
  running.set(form, abort);
  const stop = form.querySelector("[data-try-stop]");
  const view = new ResponseView(form);
  view.clear("Sending …");
  stop.hidden = false;
  const begun = performance.now();
  try {
    const { url, options } = requestOf(form);
    const response = await fetch(url, { ...options, signal: abort.signal });
    if (running.get(form) !== abort) return;
    view.head(response, performance.now() - begun);
    await showBody(response, view);
  } catch (error) {
    if (running.get(form) !== abort) return;
    if (abort.signal.aborted) view.note.textContent = "Stopped.";
    else view.status.textContent = `The request failed: ${error.message}`;
  }
  stop.hidden = true;
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches("form[data-try]")) return;
  event.preventDefault();
  const { question } = form.dataset;
  if (!question || window.confirm(question)) send(form);
});
document.addEventListener("click", (event) => {
  const stop = event.target.closest?.("[data-try-stop]");
  if (stop) running.get(stop.form)?.abort();
});
