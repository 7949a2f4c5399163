// Files with cases that a reader chooses or drops: which cases they are, and the list of those that are attached.
import { acceptFiles, editableText } from "./editor_files.js";

// Larger texts, or more of them together, do not become rows. The draft of the form has room for these beside the program.
const MAX_TEXT = 64 * 1024;
export const MAX_TEXTS = 512 * 1024;
const MAX_FILES = 20_000;

const isHidden = (path) => path.split("/").some((part) => part.startsWith(".") || part === "__MACOSX");

// Calls `take` with the files that are chosen or dropped together, with their paths.
export function followCaseFiles(form, take) {
  const takeShown = (files) => take(files.filter(({ path }) => !isHidden(path)));
  acceptFiles(form.elements.cases_upload, form.querySelector(".run-cases"), takeShown, ({ items, files }) => {
    // The entries are gone after this event.
    const entries = [...items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    return entries.length ? filesOf(entries) : [...files].map((file) => ({ path: file.name, file }));
  });
}

// The files of a dropped folder, with their paths below it.
async function filesOf(entries) {
  const found = [];
  const walk = async (entry, path) => {
    if (found.length >= MAX_FILES) return;
    if (entry.isFile) {
      const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
      found.push({ path, file });
      return;
    }
    const reader = entry.createReader();
    for (;;) {
      // A reader gives some entries at a time.
      const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (some.length === 0) return;
      for (const below of some) await walk(below, path ? `${path}/${below.name}` : below.name);
    }
  };
  for (const entry of entries) await walk(entry, entry.isFile ? entry.name : "");
  return found;
}

// A package of a problem may have a zip among its other files. Only a zip alone has the cases in it.
export const isZipOfCases = (files) => files.length === 1 && files[0].path.toLowerCase().endsWith(".zip");

// The files that belong to cases.
export const caseFiles = (files) => files.filter(({ path }) => /.\.(in|ans|out)$/.test(path));

// Inputs with their answers, by the names of the cases.
export function pairsOf(files) {
  const pairs = new Map();
  for (const { path, file } of caseFiles(files)) {
    const [name, end] = path.split(/\.(?=\w+$)/);
    const pair = pairs.get(name) ?? {};
    pair[end === "in" ? "input" : "answer"] = file;
    pairs.set(name, pair);
  }
  return [...pairs].sort(([one], [other]) => (one < other ? -1 : 1));
}

// The cases as texts that rows can hold, or null if they do not fit: `room` is for so many rows and characters.
export async function rowsOf(pairs, room) {
  if (pairs.length > room.rows) return null;
  const sizes = pairs.flatMap(([, { input, answer }]) => [input?.size ?? Infinity, answer?.size ?? 0]);
  if (Math.max(...sizes) > MAX_TEXT || sizes.reduce((one, other) => one + other, 0) > room.characters) return null;
  const rows = [];
  for (const [name, { input, answer }] of pairs) {
    const row = { name, input: await editableText(input), answer: answer && (await editableText(answer)) };
    if (row.input === null || row.answer === null) return null;
    rows.push(row);
  }
  return rows;
}

// Files that were chosen together, with a name for them, and whether a task was sent with them.
function attachment(files) {
  const paths = files.map(({ path }) => path).sort();
  const name = paths.length === 1 ? paths[0] : `${paths.length} files (${paths[0]} to ${paths.at(-1)})`;
  return { files, name, sent: false };
}

// The files that are sent with the form as they are, because they are too large or too many for rows, or a zip.
export class AttachedCases {
  #list = document.getElementById("run-attached-cases");
  #note = document.createElement("p");
  #attachments = [];
  #onChange;

  constructor(onChange) {
    this.#onChange = onChange;
    this.#note.className = "hint";
    this.#list.after(this.#note);
  }

  get attachments() {
    return this.#attachments;
  }

  // Files take the place of those with the same paths. Returns the name of what was added.
  add(files) {
    const paths = new Set(files.map(({ path }) => path));
    const others = this.#attachments.flatMap((other) => {
      const rest = other.files.filter(({ path }) => !paths.has(path));
      if (rest.length === other.files.length) return other;
      return rest.length > 0 ? attachment(rest) : [];
    });
    const added = attachment(files);
    this.#set([...others, added]);
    return added.name;
  }

  // Shows a text beside the list, or takes it away.
  note(text) {
    this.#note.textContent = text;
  }

  #set(attachments) {
    this.#attachments = attachments;
    this.#list.replaceChildren(...attachments.map((attachment) => this.#item(attachment)));
    this.#onChange();
  }

  #item(attachment) {
    const name = document.createElement("bdi");
    name.textContent = attachment.name;
    const detach = document.createElement("button");
    Object.assign(detach, { type: "button", className: "copy", textContent: "Detach" });
    detach.setAttribute("aria-label", `Detach ${attachment.name}`);
    detach.addEventListener("click", () => this.#set(this.#attachments.filter((other) => other !== attachment)));
    const item = document.createElement("li");
    item.append(name, attachment.files.length === 1 ? ", sent as it is " : ", sent as they are ", detach);
    return item;
  }
}
