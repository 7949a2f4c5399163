// The cases of a draft: those that the server serves with the task stay, and the others take their places in the form.
import { isFilled } from "./editor_cases.js";

// Whether a control has cases.
export const isOfCases = (name) => name.startsWith("case.") || name === "cases_kept";

export class CaseDraft {
  #list;
  #box;
  #entries;
  #attached;
  #kept;
  #rows;
  #filesAreServed;

  // `isHere`: the draft was kept at the address of the page.
  constructor(form, draft, isHere) {
    const { attached = [], kept = 0, rows = 0, areServed = false } = draft.cases ?? {};
    this.#list = form.querySelector("#run-case-list");
    this.#box = form.elements.cases_kept;
    this.#entries = draft.entries.filter(([name]) => isOfCases(name));
    this.#attached = attached;
    this.#kept = kept;
    this.#rows = rows;
    // No case was changed after the task was sent.
    this.areServed = isHere && areServed;
    // A task has the cases of attached files after those of the rows. Where a box keeps all cases of the task, these are those
    // of the files only if there were no others.
    this.#filesAreServed = isHere && attached.some(({ sent }) => sent) && (!this.#box || kept + rows === 0);
  }

  // Whether the controls of the form tell all cases. They do not tell those that a box keeps.
  get isComparable() {
    return this.areServed || !this.#box;
  }

  get #isTicked() {
    return this.#entries.some(([name]) => name === "cases_kept");
  }

  // The names of what has to be attached again.
  get missing() {
    if (this.areServed) return [];
    const names = this.#attached.filter(({ sent }) => !(sent && this.#filesAreServed)).map(({ name }) => name);
    return this.#isTicked && !this.#box ? [...names, "the cases of the task before"] : names;
  }

  restore() {
    if (this.areServed) return;
    const served = [...this.#list.children].filter(isFilled);
    this.#restoreRows(this.#filesAreServed ? served.slice(this.#rows) : []);
    if (this.missing.length > 0) this.#list.closest("details").open = true;
    if (!this.#box) return;
    this.#box.checked = this.#isTicked || this.#filesAreServed;
    if (!this.#filesAreServed) this.#keepFirst();
  }

  // `more` are rows after those of the draft.
  #restoreRows(more) {
    // An empty one, as the server made it.
    const empty = this.#list.lastElementChild;
    const rows = [];
    for (const [name, value] of this.#entries) {
      if (name === "case.name") rows.push(empty.cloneNode(true));
      const row = rows.at(-1);
      let control = row?.querySelector(`[name="${name}"]`);
      if (!control && row && name === "case.more") {
        control = document.createElement("input");
        Object.assign(control, { type: "hidden", name });
        row.append(control);
      }
      if (control) control.value = value;
    }
    this.#list.replaceChildren(...rows, ...more, empty);
  }

  // The cases that the draft keeps are the first of the task. The others were in rows, and are there again.
  #keepFirst() {
    const cases = JSON.parse(this.#box.value);
    if (!Array.isArray(cases) || cases.length <= this.#kept) return;
    if (this.#kept === 0) return this.#box.parentElement.remove();
    const words = this.#box.nextSibling;
    words.data = words.data.replace(cases.length, this.#kept);
    this.#box.value = JSON.stringify(cases.slice(0, this.#kept));
  }
}
