// Adds the task of the form and shows its result beside the form.
import htmx from "./htmx.js";
import { announce } from "./behaviours.js";

// The form with the files that are attached to it.
export function formData(form, files, cases) {
  const data = new FormData(form);
  data.delete("upload");
  data.delete("cases_upload");
  for (const { path, file } of files.attached) data.append("upload", file, path);
  for (const { path, file } of cases.attached) data.append("cases_upload", file, path);
  return data;
}

// The answer as an object. What is not from this page, like a page to sign in, becomes a message.
export async function send(url, data, signal) {
  let response;
  try {
    response = await fetch(url, { method: "POST", body: data, headers: { Accept: "application/json" }, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    return { message: "The server does not answer. Check the connection and run again." };
  }
  const isJson = response.headers.get("content-type")?.startsWith("application/json");
  if (!isJson || response.redirected) {
    if (response.status === 401 || response.redirected) return { message: "You are not signed in any more. Sign in again in another tab, then run again." };
    return { message: `The server answered with status ${response.status}. Try again.` };
  }
  return response.json();
}

export function runFromForm(form, files, cases) {
  const message = document.getElementById("run-message");
  const button = form.querySelector("button.primary");
  let running = false;
  copyWholeLink();

  const run = async () => {
    if (running) return;
    running = true;
    button.disabled = true;
    showProblem(form, null);
    message.textContent = "";
    const attached = [...files.attached];
    form.dispatchEvent(new Event("run:sent"));
    const answer = await send("/run", formData(form, files, cases));
    running = false;
    button.disabled = false;
    if (answer.id) {
      for (const file of attached) file.sent = true;
      showTask(form, answer.id);
      form.dispatchEvent(new Event("run:started"));
    } else {
      showProblem(form, answer);
    }
  };

  form.addEventListener("submit", (event) => {
    // The button that shows commands has an address of its own.
    if (event.submitter?.hasAttribute("formaction")) return;
    event.preventDefault();
    run();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.defaultPrevented) return;
    event.preventDefault();
    run();
  });
  files.onRun = run;
}

function showTask(form, id) {
  const link = `/run?from=${encodeURIComponent(id)}`;
  history.replaceState(null, "", link);
  form.dataset.task = id;
  const share = document.getElementById("run-share");
  share.hidden = false;
  share.querySelector("a").href = link;
  copyWholeLink();
  announce("The task was added");
  const task = document.getElementById("run-task");
  // Its requests wait for each other, so that the last task stays.
  htmx.ajax("GET", `/tasks/${encodeURIComponent(id)}/fragment`, { source: task, target: task, swap: "innerHTML" });
  if (window.matchMedia("(max-width: 64rem)").matches) document.getElementById("run-result").scrollIntoView({ block: "start" });
}

// The address of the server belongs to a link that is passed on.
function copyWholeLink() {
  const link = document.getElementById("run-link");
  document.getElementById("run-copy-link").dataset.copy = link.href;
}

// Shows an error beside its control, or takes all away.
export function showProblem(form, problem) {
  for (const control of form.querySelectorAll("[aria-invalid]")) control.removeAttribute("aria-invalid");
  for (const error of form.querySelectorAll(".error")) error.textContent = "";
  if (!problem) return;
  const id = problem.control && `run-${problem.control.replaceAll(/[._]/g, "-")}`;
  const control = id && document.getElementById(id);
  const message = document.getElementById("run-message");
  message.classList.remove("note");
  if (!control) {
    message.textContent = problem.message;
    return;
  }
  const label = (form.querySelector(`label[for="${id}"]`) ?? control.querySelector("legend"))?.textContent;
  message.textContent = `${label}: ${problem.message}`;
  const error = document.getElementById(`error-${id}`);
  if (error) error.textContent = problem.message;
  if (control.matches("input, select, textarea")) control.setAttribute("aria-invalid", "true");
  for (let details = control.closest("details"); details; details = details.parentElement.closest("details")) details.open = true;
  control.focus();
}
