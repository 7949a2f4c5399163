// What follows from the choice of a language: the name of the program, its example, and the defaults that the controls show.

// The name of a program in the chosen language, which its commands use. Commands of the reader's own have none.
const sourceOf = (select) => select.selectedOptions[0]?.dataset.source;

// Without this script a lone program needs no name. Its tab has one.
export function nameProgram(form) {
  const source = sourceOf(form.elements.language);
  const blocks = form.querySelectorAll("#run-file-list .run-file");
  const path = blocks[0]?.querySelector("[name=path]");
  if (source && blocks.length === 1 && !path.value && blocks[0].querySelector("textarea")?.value) path.value = source;
}

export function followLanguage(form, files, restored) {
  const select = form.elements.language;
  const placeholders = new Map();
  for (const control of form.querySelectorAll("input[placeholder]")) placeholders.set(control.name, control.placeholder);
  // The example in the form is replaced by that of another language as long as nobody has changed it.
  let example = select.value ? current(files) : null;
  if (form.dataset.task || restored) example = null;
  let usual = sourceOf(select);

  select.addEventListener("change", async () => {
    const name = select.value;
    const source = sourceOf(select);
    if (source) {
      files.renameProgram(usual, source);
      usual = source;
    }
    files.setLanguage();
    if (!name) return showDefaults(form, null, placeholders);
    const response = await fetch(`/run/languages/${encodeURIComponent(name)}`, { headers: { Accept: "application/json" } }).catch(() => null);
    if (!response?.ok || select.value !== name) return;
    const defaults = await response.json();
    showDefaults(form, defaults, placeholders);
    const now = current(files);
    const untouched = now && (now.text === "" || (example && now.text === example.text && now.path === defaults.source));
    if (!untouched) return;
    const file = files.selected;
    file.path.value = defaults.source;
    file.editor.text = defaults.example;
    file.path.dispatchEvent(new Event("input", { bubbles: true }));
    const input = form.elements["execute.input"];
    if (!input.value) input.value = defaults.input;
    example = { text: defaults.example };
  });
}

function current(files) {
  const file = files.selected;
  if (files.length !== 1 || !file?.editor) return null;
  return { path: file.path.value, text: file.editor.text };
}

function showDefaults(form, defaults, usual) {
  for (const control of form.querySelectorAll("input[placeholder]")) {
    if (control.name.includes(".limits.")) {
      control.placeholder = defaults ? (defaults.limits[control.name] ?? "no limit") : usual.get(control.name);
    }
  }
  const compile = form.elements["compile.command"];
  const execute = form.elements["execute.command"];
  compile.placeholder = defaults?.compile ?? "no compile step";
  execute.placeholder = defaults?.execute ?? "for example: sh main.sh";
  const commands = form.querySelector("#run-commands");
  if (!defaults) commands.open = true;
}
