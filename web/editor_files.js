// The files of the form as tabs, each with an editor. The form keeps them: its controls have what is sent.
import { TextEditor } from "./editor_view.js";
import { modeOfFile } from "./editor_languages.js";
import { announce } from "./behaviours.js";

const MAX_TEXT = 512 * 1024;

const element = (name, properties = {}, ...children) => {
  const made = document.createElement(name);
  const { role, ...others } = properties;
  if (role) made.setAttribute("role", role);
  Object.assign(made, others);
  made.append(...children);
  return made;
};

const unixLines = (text) => text.replaceAll("\r\n", "\n");

// The file as a text that an editor can show, or null. Its lines may end as on Windows.
async function textOf(file) {
  if (file.size > MAX_TEXT) return null;
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(await file.arrayBuffer());
    return /[^\P{Cc}\n\t]/u.test(unixLines(text)) ? null : text;
  } catch {
    return null;
  }
}

// The file as a text that a form can hold without a change, or null.
export async function editableText(file) {
  const text = await textOf(file);
  return text?.includes("\r") ? null : text;
}

// A file in the form, as the server makes it: its content is in the text field, or a hidden control refers to it.
export function fileBlock(path, content) {
  const pathInput = element("input", { name: "path", value: path, autocomplete: "off", spellcheck: false });
  const block = element("div", { className: "run-file" }, element("div", { className: "field" }, element("label", { textContent: "File name" }), pathInput));
  if (content.name === "text") {
    const area = element("textarea", { name: "text", value: content.value, rows: 14, spellcheck: false });
    block.append(element("div", { className: "field" }, element("label", { textContent: "Content" }), area));
  } else {
    const note = "This file is not shown, and kept as it is. Empty its name to leave it out.";
    block.append(element("p", { className: "notice", textContent: note }), element("input", { type: "hidden", ...content }));
  }
  return block;
}

const withPaths = (files) => [...files].map((file) => ({ path: file.webkitRelativePath || file.name, file }));

// Calls `take` with files and their paths, which are chosen or dropped on the area. `dropped` finds those of a drop.
export function acceptFiles(upload, area, take, dropped = ({ files }) => withPaths(files)) {
  upload.addEventListener("change", () => {
    const chosen = withPaths(upload.files);
    // The page has the files from now on, and would send them twice.
    upload.value = "";
    take(chosen);
  });
  const isFiles = (event) => event.dataTransfer?.types.includes("Files");
  area.addEventListener("dragover", (event) => {
    if (!isFiles(event)) return;
    event.preventDefault();
    area.classList.add("dropping");
  });
  area.addEventListener("dragleave", () => area.classList.remove("dropping"));
  // Before an editor in the area, which would insert the content.
  area.addEventListener(
    "drop",
    async (event) => {
      if (!isFiles(event)) return;
      event.preventDefault();
      event.stopPropagation();
      area.classList.remove("dropping");
      take(await dropped(event.dataTransfer));
    },
    true,
  );
}

export class FileTabs {
  #form;
  #list;
  #tabs;
  #files = [];
  #selected = 0;
  #next = 1;
  #attached = [];
  #listeners = [];
  onRun = () => {};

  constructor(form) {
    this.#form = form;
    this.#list = form.querySelector("#run-file-list");
    this.#tabs = element("div", { role: "tablist", className: "run-tabs" });
    this.#tabs.setAttribute("aria-label", "Files");
    const add = element("button", { type: "button", className: "run-add", textContent: "Add a file" });
    add.addEventListener("click", () => this.add("", "", true));
    this.#list.before(element("div", { className: "run-tab-bar" }, this.#tabs, add));
    this.#tabs.addEventListener("keydown", (event) => this.#onKey(event));
    for (const block of [...this.#list.querySelectorAll(".run-file")]) this.#adopt(block);
    this.#select(0);
    this.#followFileControls();
  }

  get length() {
    return this.#files.length;
  }

  // What the browser has of files that are not texts. They are sent with the form.
  get attached() {
    return this.#attached;
  }

  get selected() {
    return this.#files[this.#selected];
  }

  onChange(listener) {
    this.#listeners.push(listener);
  }

  changed() {
    for (const listener of this.#listeners) listener();
  }

  setLanguage() {
    for (const file of this.#files) this.#show(file);
  }

  find(path) {
    return this.#files.find((file) => file.path.value === path);
  }

  // Gives the program the name that the commands of another language use, unless it has a name of its own.
  renameProgram(from, to) {
    const isNameless = ({ path }) => this.#files.length === 1 && !path.value.trim();
    const file = this.#files.find((file) => file.path.value === from || isNameless(file));
    if (!file?.area || this.find(to)) return;
    file.path.value = to;
    file.path.dispatchEvent(new Event("input", { bubbles: true }));
  }

  add(path, text, focus) {
    const block = fileBlock(path, { name: "text", value: text });
    this.#list.append(block);
    const file = this.#adopt(block);
    this.#select(this.#files.length - 1);
    if (focus) file.path.focus();
    this.changed();
    return file;
  }

  #adopt(block) {
    const number = this.#next++;
    const area = block.querySelector("textarea");
    const path = block.querySelector("input[name=path]");
    const remove = element("button", { type: "button", className: "run-remove", textContent: "Remove this file" });
    const tab = element("button", { type: "button", role: "tab", id: `tab-${number}` });
    const file = { block, tab, path, area, editor: null };
    path.id = `path-${number}`;
    path.previousElementSibling.htmlFor = path.id;
    path.previousElementSibling.textContent = "File name";
    block.id = `panel-${number}`;
    block.setAttribute("role", "tabpanel");
    block.setAttribute("aria-labelledby", tab.id);
    tab.setAttribute("aria-controls", block.id);
    path.parentElement.after(remove);
    remove.addEventListener("click", () => this.#remove(file));
    path.addEventListener("input", () => {
      this.#show(file);
      this.changed();
    });
    tab.addEventListener("click", () => this.#select(this.#files.indexOf(file)));
    this.#tabs.append(tab);
    this.#files.push(file);
    if (area) {
      // The editor has a label of its own.
      const label = area.parentElement.querySelector("label");
      area.id = `text-${number}`;
      label.htmlFor = area.id;
      label.hidden = true;
    }
    this.#show(file);
    return file;
  }

  #remove(file) {
    const index = this.#files.indexOf(file);
    const name = file.path.value || "the file";
    if (file.area?.value && !window.confirm(`Remove ${name} with its content?`)) return false;
    this.#files.splice(index, 1);
    file.editor?.destroy();
    file.tab.remove();
    file.block.remove();
    if (this.#files.length === 0) this.add("", "", false);
    this.#select(Math.min(index, this.#files.length - 1));
    this.selected.tab.focus();
    announce(`Removed ${name}`);
    this.changed();
    return true;
  }

  #select(index) {
    this.#selected = index;
    this.#files.forEach((file, at) => {
      const isSelected = at === index;
      file.block.hidden = !isSelected;
      file.tab.setAttribute("aria-selected", String(isSelected));
      file.tab.tabIndex = isSelected ? 0 : -1;
    });
    const file = this.#files[index];
    if (file?.area && !file.editor) {
      file.editor = new TextEditor(file.area, {
        nonce: this.#form.dataset.nonce,
        label: "Content",
        onChange: () => this.changed(),
        onRun: () => this.onRun(),
      });
      this.#show(file);
    }
    file?.editor?.view.requestMeasure();
  }

  // The name on the tab, and the colours for it.
  #show(file) {
    const name = file.path.value.trim();
    file.tab.textContent = name || "unnamed";
    if (!file.editor) return;
    file.editor.label = `Content of ${name || "the unnamed file"}`;
    file.editor.setMode(modeOfFile(name, this.#form.elements.language.value));
  }

  #onKey(event) {
    const last = this.#files.length - 1;
    const targets = { ArrowLeft: this.#selected - 1, ArrowRight: this.#selected + 1, Home: 0, End: last };
    if (event.key === "Delete") {
      event.preventDefault();
      this.#remove(this.selected);
    } else if (Object.hasOwn(targets, event.key)) {
      event.preventDefault();
      const target = targets[event.key];
      this.#select(target < 0 ? last : target > last ? 0 : target);
      this.selected.tab.focus();
    }
  }

  #followFileControls() {
    acceptFiles(this.#form.elements.upload, this.#form.querySelector(".run-files"), (files) => this.#take(files));
  }

  async #take(chosen) {
    const changed = [];
    for (const { path, file: chosenFile } of chosen) {
      const original = await textOf(chosenFile);
      if (original === null) {
        this.#attach(path, chosenFile);
        continue;
      }
      const text = unixLines(original);
      if (text !== original) changed.push(path);
      // The tab takes its place.
      this.#detach(path);
      const known = this.find(path) ?? this.#files.find((file) => file.area && !file.path.value && !file.area.value);
      if (!known?.area) {
        this.add(path, text, false);
      } else {
        known.path.value = path;
        this.#select(this.#files.indexOf(known));
        known.editor.text = text;
        this.#show(known);
      }
    }
    announce(chosen.length === 1 ? `Added ${chosen[0].file.name}` : `Added ${chosen.length} files`);
    if (changed.length > 0) {
      const message = document.getElementById("run-message");
      message.textContent = `Lines that end with \\r\\n now end with \\n: ${changed.join(", ")}.`;
      message.classList.add("note");
    }
    this.changed();
  }

  #attach(path, file) {
    const known = this.find(path);
    if (known && !this.#remove(known)) return;
    this.#attached = this.#attached.filter((other) => other.path !== path);
    this.#attached.push({ path, file });
    this.#showAttached();
  }

  #detach(path) {
    this.#attached = this.#attached.filter((other) => other.path !== path);
    this.#showAttached();
  }

  #showAttached() {
    const list = document.getElementById("run-attached");
    list.replaceChildren(
      ...this.#attached.map(({ path, file }) => {
        const detach = element("button", { type: "button", className: "copy", textContent: "Detach" });
        detach.setAttribute("aria-label", `Detach ${path}`);
        detach.addEventListener("click", () => {
          this.#detach(path);
          this.changed();
        });
        return element("li", {}, element("bdi", { textContent: path }), ` (${file.size} bytes, sent as it is) `, detach);
      }),
    );
  }
}
