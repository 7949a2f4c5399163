// Shows the form as curl, command line and JSON while that part of the page is open.
import { send, showProblem } from "./editor_run.js";

export function showCommands(form, files, cases) {
  const details = document.getElementById("run-as");
  const note = document.getElementById("run-as-note");
  const button = details.querySelector("button[formaction]");
  // The parts follow the form by themselves.
  button.parentElement.hidden = true;
  let timer = null;
  let asking = null;

  const ask = async () => {
    timer = null;
    if (!details.open) return;
    asking?.abort();
    asking = new AbortController();
    const data = new FormData(form);
    data.delete("upload");
    data.delete("input_upload");
    data.delete("cases_upload");
    for (const { path } of files.attached) data.append("upload_name", path);
    for (const { path } of cases.attached) data.append("case_upload_name", path);
    let answer;
    try {
      answer = await send("/run/commands", data, asking.signal);
    } catch {
      return;
    }
    const isShown = Boolean(answer.json);
    for (const part of details.querySelectorAll(".run-as")) part.hidden = !isShown;
    if (isShown) {
      for (const name of ["curl", "cli", "json"]) document.getElementById(`run-as-${name}`).textContent = answer[name];
      note.textContent = answer.note ?? "";
    } else {
      note.textContent = answer.message;
      if (!form.contains(document.activeElement)) showProblem(form, answer);
    }
  };
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(ask, 400);
  };
  details.addEventListener("toggle", ask);
  form.addEventListener("input", later);
  form.addEventListener("change", later);
  files.onChange(later);
  cases.onChange(later);
}
