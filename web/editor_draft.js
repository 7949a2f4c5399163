// Keeps what was typed in this tab of the browser, so that a reload loses nothing.
const KEY = "conclave.run";
const MAX_LENGTH = 1 << 20;

// Of one address: another link shows what it promises.
const address = () => location.pathname + location.search;

// Puts the draft into the form, before anything else looks at it. Returns whether there was one.
export function restoreDraft(form) {
  const draft = read();
  if (!draft || draft.address !== address()) return false;
  const server = new FormData(form);
  const same = JSON.stringify(entries(server)) === JSON.stringify(draft.entries);
  if (same) return false;
  const list = form.querySelector("#run-file-list");
  const template = list.querySelector(".run-file textarea")?.closest(".run-file").cloneNode(true);
  const referred = new Map([...list.querySelectorAll(".run-file")].filter((block) => !block.querySelector("textarea")).map((block) => [block.querySelector("[name=path]").defaultValue, block]));
  list.replaceChildren();
  let block = null;
  let fileCount = 0;
  for (const [name, value] of draft.entries) {
    if (name === "path") {
      fileCount += 1;
      block = null;
      const path = value;
      const kept = referred.get(path);
      if (kept) {
        block = kept;
        list.append(kept);
      } else if (template) {
        block = template.cloneNode(true);
        for (const hidden of block.querySelectorAll("input[type=hidden]")) hidden.remove();
        for (const [own, prefix] of [["input[name=path]", "path"], ["textarea", "text"]]) {
          const control = block.querySelector(own);
          const label = control.parentElement.querySelector("label");
          control.id = `${prefix}-${fileCount}`;
          label.htmlFor = control.id;
        }
        block.querySelector("[name=path]").value = path;
        block.querySelector("textarea").value = "";
        list.append(block);
      }
    } else if (name === "text") {
      const area = block?.querySelector("textarea");
      if (area) area.value = value;
    } else if (name === "executable") {
      if (block && !block.querySelector("[name=executable]")) {
        const hidden = document.createElement("input");
        Object.assign(hidden, { type: "hidden", name, value });
        block.querySelector("[name=path]").after(hidden);
      }
    } else if (!["base64", "blob", "input_base64", "input_blob"].includes(name)) {
      const control = form.elements[name];
      if (control?.type === "checkbox") control.checked = true;
      else if (control && "value" in control) control.value = value;
    }
  }
  for (const details of form.querySelectorAll("details")) {
    if (details.id === "run-as") continue;
    const filled = [...details.querySelectorAll("input, textarea, select")].some((control) => (control.type === "checkbox" ? control.checked : control.value));
    if (filled) details.open = true;
  }
  return true;
}

// Keeps the form after each change. Returns what forgets it.
export function keepDraft(form, files) {
  let timer = null;
  let on = true;
  const write = () => {
    timer = null;
    if (!on) return;
    const text = JSON.stringify({ address: address(), entries: entries(new FormData(form)) });
    try {
      if (text.length <= MAX_LENGTH) sessionStorage.setItem(KEY, text);
      else sessionStorage.removeItem(KEY);
    } catch {
      // The browser keeps nothing. The form works without it.
    }
  };
  const later = () => {
    timer ??= setTimeout(write, 300);
  };
  form.addEventListener("input", later);
  form.addEventListener("change", later);
  form.addEventListener("run:started", write);
  files.onChange(later);
  window.addEventListener("pagehide", () => timer && write());
  return () => {
    on = false;
    try {
      sessionStorage.removeItem(KEY);
    } catch {
      // Nothing was kept.
    }
  };
}

function entries(data) {
  return [...data].filter(([, value]) => typeof value === "string");
}

function read() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY));
  } catch {
    return null;
  }
}
