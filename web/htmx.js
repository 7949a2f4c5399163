// htmx for the extensions, which look for it in the window.
import htmx from "htmx.org";

window.htmx = htmx;
htmx.config.allowEval = false;
htmx.config.allowScriptTags = false;
htmx.config.includeIndicatorStyles = false;
htmx.config.selfRequestsOnly = true;
htmx.config.historyEnabled = false;

// Only HTML of this server becomes a part of a page. What users have written is sent with other types, and must never be read as
// HTML: its attributes would be requests in the name of the reader.
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  if (detail.xhr.getResponseHeader("Content-Type")?.startsWith("text/html")) return;
  detail.shouldSwap = false;
  const link = detail.requestConfig.elt.closest("a[href]");
  if (link) location.href = link.href;
});

export default htmx;
