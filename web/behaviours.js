// Small behaviours of all pages. Each finds its elements by a data attribute, also in parts that arrive later.
import htmx from "./htmx.js";

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });

// Shows a time in the reader's zone. The title has the whole UTC time.
function localise(element) {
  const time = new Date(element.dateTime);
  if (Number.isNaN(time.getTime())) return;
  // A line may break between the date and the time only.
  const [date, today, hour] = [day.format(time), day.format(new Date()), clock.format(time)].map((text) => text.replaceAll(" ", "\u00a0"));
  const text = date === today ? hour : `${date} ${hour}`;
  if (element.textContent !== text) element.textContent = text;
}

function localiseAll(root) {
  if (root.matches?.("time[datetime]")) localise(root);
  for (const element of root.querySelectorAll?.("time[datetime]") ?? []) localise(element);
}

async function copy(button) {
  const source = button.dataset.copyFrom && document.getElementById(button.dataset.copyFrom);
  const text = source ? source.textContent : button.dataset.copy;
  if (await writeClipboard(text)) {
    announce("Copied");
    button.dataset.copied = "";
    setTimeout(() => delete button.dataset.copied, 1500);
  } else {
    announce("The browser does not allow copying");
  }
}

// Browsers have `navigator.clipboard` only under TLS and on the machine itself.
async function writeClipboard(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text).then(() => true, () => false);
  const area = document.createElement("textarea");
  area.value = text;
  area.setAttribute("aria-hidden", "true");
  area.className = "visually-hidden";
  document.body.append(area);
  const focused = document.activeElement;
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return copied;
}

// Says a text to screen readers.
export function announce(text) {
  const region = document.getElementById("announcer");
  if (region) region.textContent = text;
}

document.documentElement.classList.add("scripted");
document.addEventListener("click", (event) => {
  const button = event.target.closest?.("button.copy");
  if (button) copy(button);
});
document.addEventListener("submit", (event) => {
  const question = event.submitter?.dataset.confirm ?? event.target.dataset.confirm;
  if (question && !window.confirm(question)) event.preventDefault();
});
localiseAll(document.body);
// What was done is said once: not again after a reload, and not to whom the address is sent.
const address = new URL(location.href);
if (address.searchParams.has("notice")) {
  address.searchParams.delete("notice");
  history.replaceState(history.state, "", address);
}
new MutationObserver((changes) => {
  for (const change of changes) {
    for (const node of change.addedNodes) localiseAll(node);
    if (change.type === "attributes") localise(change.target);
    // A morphed time has the server's text again.
    const parent = change.target.nodeType === Node.TEXT_NODE ? change.target.parentElement : change.target;
    if (parent?.matches?.("time[datetime]")) localise(parent);
  }
}).observe(document.body, { childList: true, subtree: true, characterData: true, attributes: true, attributeFilter: ["datetime"] });

export default htmx;
