// The script of the page Run: an editor for the files, and the result of a run beside it. Without it the page is a plain form.
import { goToLatest, restoreDraft, keepDraft } from "./editor_draft.js";
import { FileTabs } from "./editor_files.js";
import { CaseRows } from "./editor_cases.js";
import { followLanguage, nameProgram } from "./editor_choice.js";
import { runFromForm } from "./editor_run.js";
import { showCommands } from "./editor_commands.js";

const form = document.getElementById("run-form");
if (form && !goToLatest()) {
  nameProgram(form);
  const restored = restoreDraft(form);
  const files = new FileTabs(form);
  const cases = new CaseRows(form, { areServed: restored?.casesAreServed ?? true });
  const forget = keepDraft(form, files, cases);
  followLanguage(form, files, restored);
  runFromForm(form, files, cases);
  showCommands(form, files, cases);
  document.getElementById("run-reset").addEventListener("click", () => {
    forget();
    location.assign("/run");
  });
  if (restored) {
    const message = document.getElementById("run-message");
    const missing = restored.missing.length ? ` Attach these files again: ${restored.missing.join(", ")}.` : "";
    message.textContent = `This is what you typed before the page was loaded again.${missing} Reset forgets it.`;
    message.classList.add("note");
  }
}
