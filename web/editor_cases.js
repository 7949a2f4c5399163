// The cases of the form: rows to add and remove, folders and zips to drop, and the verdict on each row as it comes.
import { announce } from "./behaviours.js";
import { AttachedCases, MAX_TEXTS, caseFiles, followCaseFiles, isZipOfCases, pairsOf, rowsOf } from "./editor_case_files.js";

// More cases are sent as they are.
const MAX_ROWS = 50;

// Every row has its controls, whatever its number.
const control = (row, name) => row.querySelector(`[name="case.${name}"]`);

const fields = (row) => [...row.querySelectorAll("input, textarea")];

export const isFilled = (row) => fields(row).some((field) => field.value !== "");

export class CaseRows {
  #form;
  #list;
  #template;
  #kept;
  #attached = new AttachedCases(() => this.changed());
  // The cases of the task that is shown, and of the one that was sent last. A task has the kept cases first, then those of the
  // rows, then those of attached files.
  #shown;
  #sent;
  #listeners = [];

  // `areServed`: the cases in the form are those of the task that the page shows, if there is one.
  constructor(form, { areServed }) {
    this.#form = form;
    this.#list = form.querySelector("#run-case-list");
    this.#kept = form.elements.cases_kept;
    this.#template = this.#list.lastElementChild.cloneNode(true);
    for (const field of fields(this.#template)) field.value = "";
    // Empty rows are for browsers without scripts.
    for (const row of this.rows) {
      if (isFilled(row)) this.#adopt(row);
      else row.remove();
    }
    const add = document.createElement("button");
    Object.assign(add, { type: "button", id: "run-add-case", textContent: "Add a case" });
    add.addEventListener("click", () => control(this.#add({}), "input").focus());
    this.#list.after(add);
    this.#number();
    this.#shown = { kept: this.#keptCount(), rows: areServed ? this.rows : [], attachments: [], areServed };
    this.#sent = this.#shown;
    this.#kept?.addEventListener("change", () => this.changed());
    followCaseFiles(form, (files) => this.#take(files));
    this.#followTask();
  }

  get rows() {
    return [...this.#list.querySelectorAll(".run-case")];
  }

  // The files that are sent with the form.
  get attached() {
    return this.#attached.attachments.flatMap(({ files }) => files);
  }

  // What a draft has besides the controls: the attached files, how many kept cases and rows the task has, and whether the form
  // still has the cases of the task.
  get draft() {
    const { kept, rows, areServed } = this.#shown;
    const attached = this.#attached.attachments.map(({ name, sent }) => ({ name, sent }));
    return { attached, kept, rows: rows.length, areServed };
  }

  onChange(listener) {
    this.#listeners.push(listener);
  }

  changed() {
    for (const cases of [this.#shown, this.#sent]) cases.areServed = false;
    for (const listener of this.#listeners) listener();
  }

  #add({ name = "", input = "", answer }) {
    const row = this.#template.cloneNode(true);
    control(row, "name").value = name;
    control(row, "input").value = input;
    control(row, "answer").value = answer ?? "";
    if (answer === "") {
      // An answer that is empty is not the same as none.
      const more = document.createElement("input");
      Object.assign(more, { type: "hidden", name: "case.more", value: JSON.stringify({ answer }) });
      row.append(more);
    }
    this.#list.append(row);
    this.#adopt(row);
    this.#number();
    return row;
  }

  #adopt(row) {
    const remove = document.createElement("button");
    Object.assign(remove, { type: "button", className: "run-remove" });
    remove.addEventListener("click", () => {
      const name = remove.textContent;
      const next = row.nextElementSibling ?? row.previousElementSibling;
      row.remove();
      this.#number();
      (next?.querySelector(".run-remove") ?? document.getElementById("run-add-case")).focus();
      announce(name.replace("Remove", "Removed"));
      this.changed();
    });
    row.querySelector(".run-case-head").append(remove);
    row.addEventListener("input", () => {
      // What was judged is not what is in the row now.
      for (const cases of [this.#shown, this.#sent]) cases.rows = cases.rows.map((judged) => (judged === row ? null : judged));
      this.#showVerdict(row, null);
      this.changed();
    });
  }

  #number() {
    this.rows.forEach((row, index) => {
      const number = index + 1;
      row.setAttribute("aria-label", `Case ${number}`);
      row.querySelector(".run-remove").textContent = `Remove case ${number}`;
      for (const label of row.querySelectorAll("label")) {
        const field = label.parentElement.querySelector("input, textarea");
        field.id = `${field.name.replace(".", "-")}-${number}`;
        label.htmlFor = field.id;
        label.querySelector(".case-number").textContent = number;
      }
    });
  }

  async #take(files) {
    this.#attached.note("");
    if (isZipOfCases(files)) return this.#attach(files);
    const pairs = pairsOf(files);
    if (pairs.length === 0) {
      const note = "There is no case among these files: a case is NAME.in with NAME.ans or NAME.out, or all are in one zip.";
      this.#attached.note(note);
      return announce(note);
    }
    const characters = this.rows.flatMap(fields).reduce((sum, field) => sum + field.value.length, 0);
    const rows = await rowsOf(pairs, { rows: MAX_ROWS - this.rows.length, characters: MAX_TEXTS - characters });
    if (!rows) return this.#attach(caseFiles(files));
    for (const row of rows) this.#add(row);
    announce(`Added ${rows.length} ${rows.length === 1 ? "case" : "cases"}`);
    this.changed();
  }

  #attach(files) {
    announce(`Attached ${this.#attached.add(files)}`);
  }

  // The form may change while the request is on its way, so its cases are noted when they are sent.
  #followTask() {
    this.#form.addEventListener("run:sent", () => {
      const kept = this.#kept?.checked ? this.#keptCount() : 0;
      this.#sent = { kept, rows: this.rows.filter(isFilled), attachments: this.#attached.attachments, areServed: true };
    });
    this.#form.addEventListener("run:started", () => {
      this.#shown = this.#sent;
      for (const attachment of this.#shown.attachments) attachment.sent = true;
      for (const row of this.rows) this.#showVerdict(row, null);
    });
    const result = document.getElementById("run-task");
    new MutationObserver(() => this.#showVerdicts(result)).observe(result, { childList: true, subtree: true, attributes: true, attributeFilter: ["data-verdict"] });
  }

  #keptCount() {
    try {
      // There may be none, or a zip, which is no list.
      return JSON.parse(this.#kept.value).length ?? 0;
    } catch {
      return 0;
    }
  }

  // The marks of the task that is shown beside the form, which come while it runs. Those of another task may still be there.
  #showVerdicts(result) {
    const { kept, rows } = this.#shown;
    for (const mark of result.querySelectorAll(`a[data-case][href^="/tasks/${this.#form.dataset.task}/"]`)) {
      const row = rows[Number(mark.dataset.case) - kept];
      if (row) this.#showVerdict(row, mark.dataset.verdict ? mark : null);
    }
  }

  #showVerdict(row, mark) {
    const place = row.querySelector(".run-case-verdict");
    const text = mark ? `${mark.textContent} ${mark.dataset.verdict.replaceAll("_", " ")}` : "";
    if (place.textContent === text) return;
    place.textContent = text;
    place.className = mark ? `run-case-verdict status ${["good", "bad", "busy", "wait"].find((name) => mark.classList.contains(name))}` : "run-case-verdict";
  }
}
