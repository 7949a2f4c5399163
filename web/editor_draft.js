// Keeps what was typed in this tab of the browser, so that a reload loses nothing.
import { CaseDraft, isOfCases } from "./editor_case_draft.js";
import { fileBlock } from "./editor_files.js";

const KEY = "conclave.run";
// Browsers keep about five million characters for a site.
const MAX_LENGTH = 4 << 20;
// The server serves what these boxes keep, which may be large.
const SERVED_BOXES = ["cases_kept", "check_kept"];

// Of one address: another link shows what it promises.
const address = () => location.pathname + location.search;

// Without parameters, the page goes on where this tab of the browser was: at the link of its last run, or with what was typed
// at another address. Returns whether it goes there.
export function goToLatest() {
  const draft = read();
  if (!draft || address() !== "/run" || draft.address === "/run" || draft.sought) return false;
  // Once, as that page may be gone.
  store({ ...draft, sought: true });
  location.replace(draft.address);
  return true;
}

// Puts the draft into the form, before anything else looks at it. Returns what it restored, or null: `missing` has the names
// of attached files, which a browser does not keep; `casesAreServed` says whether the cases are those of the task.
export function restoreDraft(form) {
  const { sought, ...draft } = read() ?? {};
  const isHere = draft.address === address();
  if (isHere && sought) store(draft);
  if (!draft.entries || !(isHere || (sought && address() === "/run"))) return null;
  const attached = draft.attached ?? [];
  const list = form.querySelector("#run-file-list");
  const served = [...list.querySelectorAll(".run-file")].filter((block) => !block.querySelector("textarea"));
  // Files that were attached before the program ran are in the task, and so in the form of the server.
  const pathOf = (block) => block.querySelector("[name=path]").value;
  const ran = served.filter((block) => attached.some(({ path, sent }) => sent && path === pathOf(block)));
  const missingFiles = attached.map(({ path }) => path).filter((path) => !ran.some((block) => pathOf(block) === path));
  const cases = new CaseDraft(form, draft, isHere);
  const missing = [...missingFiles, ...cases.missing];
  const same = JSON.stringify(entries(new FormData(form))) === JSON.stringify(draft.entries);
  if (same && missing.length === 0 && cases.isComparable) return null;
  const blocks = fileBlocks(draft.entries, served);
  list.replaceChildren(...new Set([...blocks, ...ran]));
  const elsewhere = ["path", "executable", "text", "base64", "blob", "input_base64", "input_blob"];
  // A draft names the boxes that are ticked.
  for (const box of form.querySelectorAll("input[type=checkbox]:not([name=cases_kept])")) box.checked = false;
  for (const [name, value] of draft.entries) {
    if (isOfCases(name) || elsewhere.includes(name)) continue;
    const control = form.elements[name];
    if (control?.type === "checkbox") control.checked = true;
    else if (control && "value" in control) control.value = value;
  }
  cases.restore();
  for (const details of form.querySelectorAll("details")) {
    if (details.id === "run-as") continue;
    const filled = [...details.querySelectorAll("input, textarea, select")].some((control) => (control.type === "checkbox" ? control.checked : control.value));
    if (filled) details.open = true;
  }
  return { missing, casesAreServed: cases.areServed };
}

// The files of a draft. `served` are those that the form of the server has without showing them; the draft may name them
// otherwise.
function fileBlocks(entries, served) {
  const blocks = [];
  let path = "";
  let executable = null;
  for (const [name, value] of entries) {
    if (name === "path") {
      path = value;
      executable = null;
    } else if (name === "executable") {
      executable = value;
    } else if (["text", "base64", "blob"].includes(name)) {
      const refers = (block) => !blocks.includes(block) && block.querySelector(`[name=${name}]`)?.value === value;
      const block = served.find(refers) ?? fileBlock(path, { name, value });
      const pathInput = block.querySelector("[name=path]");
      pathInput.value = path;
      if (executable && !block.querySelector("[name=executable]")) {
        const hidden = document.createElement("input");
        Object.assign(hidden, { type: "hidden", name: "executable", value: executable });
        pathInput.parentElement.after(hidden);
      }
      blocks.push(block);
    }
  }
  return blocks;
}

// Keeps the form after each change. Returns what forgets it.
export function keepDraft(form, files, cases) {
  let timer = null;
  let on = true;
  // Whether the form is not as it was sent.
  let changed = false;
  const write = () => {
    clearTimeout(timer);
    timer = null;
    if (!on) return;
    const attached = files.attached.map(({ path, sent }) => ({ path, sent }));
    store({ address: address(), entries: entries(new FormData(form)), attached, cases: cases.draft });
  };
  const later = () => {
    changed = true;
    timer ??= setTimeout(write, 300);
  };
  form.addEventListener("input", later);
  form.addEventListener("change", later);
  form.addEventListener("run:sent", () => {
    changed = false;
  });
  // The task has what was typed before, and the new address of the page names the task.
  form.addEventListener("run:started", () => {
    if (changed) return write();
    clearTimeout(timer);
    timer = null;
    store({ address: address() });
  });
  files.onChange(later);
  cases.onChange(later);
  window.addEventListener("pagehide", () => timer && write());
  return () => {
    on = false;
    drop();
  };
}

function store(draft) {
  const text = JSON.stringify(draft);
  try {
    if (text.length <= MAX_LENGTH) sessionStorage.setItem(KEY, text);
    else sessionStorage.removeItem(KEY);
  } catch {
    // The browser keeps nothing. The form works without it.
  }
}

function drop() {
  try {
    sessionStorage.removeItem(KEY);
  } catch {
    // Nothing was kept.
  }
}

// The texts in the form, without the rows of cases that are empty.
function entries(data) {
  const found = [];
  let row = [];
  const endRow = () => {
    if (row.some(([, value]) => value !== "")) found.push(...row);
    row = [];
  };
  for (const [name, value] of data) {
    if (typeof value !== "string") continue;
    if (!name.startsWith("case.") || name === "case.name") endRow();
    if (name.startsWith("case.")) row.push([name, value]);
    else found.push([name, SERVED_BOXES.includes(name) ? "" : value]);
  }
  endRow();
  return found;
}

function read() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY));
  } catch {
    return null;
  }
}
