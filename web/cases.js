// The case that a reader has chosen on the page of a task: it appears below the marks.
import { announce } from "./behaviours.js";

document.addEventListener("htmx:load", ({ detail }) => {
  const shown = detail.elt;
  if (shown.id !== "case") return;
  for (const mark of document.querySelectorAll("a.mark[data-case]")) {
    if (mark.dataset.case === shown.dataset.index) mark.setAttribute("aria-current", "true");
    else mark.removeAttribute("aria-current");
  }
  const title = shown.querySelector("h2");
  if (title) announce(`${title.textContent}: ${shown.querySelector(".verdict")?.textContent ?? ""}`);
  // The link that was followed is gone: the first case has no previous one, and the last has no next one.
  if (title && document.activeElement === document.body) {
    title.tabIndex = -1;
    title.focus({ preventScroll: true });
  }
  shown.scrollIntoView({ block: "nearest" });
});

// The page of the case says why it is refused, asks for a sign-in, or lets the browser say that there is no answer.
function openCase(event) {
  const link = event.target.closest("section.cases a[href]");
  if (link) location.href = link.href;
}
document.addEventListener("htmx:responseError", openCase);
document.addEventListener("htmx:sendError", openCase);
