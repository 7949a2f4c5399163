// The script of the page Run: an editor for the files, and the result of a run beside it. Without it the page is a plain form.
import { restoreDraft, keepDraft } from "./editor_draft.js";
import { FileTabs } from "./editor_files.js";
import { followLanguage } from "./editor_choice.js";
import { runFromForm } from "./editor_run.js";
import { showCommands } from "./editor_commands.js";

const form = document.getElementById("run-form");
if (form) {
  const restored = restoreDraft(form);
  const files = new FileTabs(form);
  const forget = keepDraft(form, files);
  followLanguage(form, files);
  runFromForm(form, files);
  showCommands(form, files);
  document.getElementById("run-reset").addEventListener("click", () => {
    forget();
    location.assign("/run");
  });
  if (restored) {
    const message = document.getElementById("run-message");
    message.textContent = "This is what you typed before the page was loaded again. Reset forgets it.";
    message.classList.add("note");
  }
}
