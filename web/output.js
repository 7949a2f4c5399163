// The views of outputs and files: following the end, wrapping lines, searching, and what comes while a task runs.
// Each control names the text that it is for by the id in its data attribute.

// More characters than these are not kept in the page; the raw output has all of them.
const MAX_LENGTH = 1 << 20;
// A search marks no more matches than these.
const MAX_MATCHES = 5000;

const marksMatches = "highlights" in CSS;
// The matches of the text in which was searched last, and the current one.
let search = { text: null, words: "", ranges: [], current: -1 };

function controls(name, text) {
  return document.querySelectorAll(`[data-output-${name}="${text.id}"]`);
}

function isFollowed(text) {
  return [...controls("follow", text)].some((button) => button.getAttribute("aria-pressed") === "true");
}

function setPressed(button, pressed) {
  button.setAttribute("aria-pressed", String(pressed));
}

function scrollToEnd(text) {
  if (text.scrollHeight - text.scrollTop - text.clientHeight < 1) return;
  text.dataset.scrolledByScript = "";
  text.scrollTop = text.scrollHeight;
}

// Appends HTML that the server has made of a task's output: text, and spans with classes.
function append(text, html) {
  const before = text.lastChild;
  text.insertAdjacentHTML("beforeend", html);
  let added = 0;
  for (let node = before ? before.nextSibling : text.firstChild; node; node = node.nextSibling) added += node.textContent.length;
  let length = Number(text.dataset.length ?? text.textContent.length - added) + added;
  if (length > MAX_LENGTH) {
    while (length > MAX_LENGTH * 0.75 && text.firstChild !== text.lastChild) {
      length -= text.firstChild.textContent.length;
      text.firstChild.remove();
    }
    for (const note of controls("dropped", text)) note.hidden = false;
  }
  text.dataset.length = String(length);
  afterChange(text);
}

function reset(text) {
  text.textContent = "";
  text.dataset.length = "0";
  for (const note of controls("dropped", text)) note.hidden = true;
  afterChange(text);
}

// Many chunks may come before the browser draws once.
const changed = new Set();
function afterChange(text) {
  if (changed.size === 0) {
    requestAnimationFrame(() => {
      for (const one of changed) {
        if (isFollowed(one)) scrollToEnd(one);
        if (search.text === one && search.words) find(one, search.words, search.current);
      }
      changed.clear();
    });
  }
  changed.add(text);
}

// The places of the text of an element, as one text.
function textNodes(text) {
  const walker = document.createTreeWalker(text, NodeFilter.SHOW_TEXT);
  const nodes = [];
  let start = 0;
  while (walker.nextNode()) {
    nodes.push({ node: walker.currentNode, start });
    start += walker.currentNode.data.length;
  }
  return nodes;
}

function find(text, words, current) {
  const ranges = [];
  if (words) {
    const nodes = textNodes(text);
    const whole = text.textContent.toLowerCase();
    const wanted = words.toLowerCase();
    let at = 0;
    const place = (offset) => {
      while (at + 1 < nodes.length && nodes[at + 1].start <= offset) at += 1;
      return [nodes[at].node, Math.min(offset - nodes[at].start, nodes[at].node.data.length)];
    };
    for (let found = whole.indexOf(wanted); found >= 0 && ranges.length < MAX_MATCHES; found = whole.indexOf(wanted, found + wanted.length)) {
      const range = new Range();
      range.setStart(...place(found));
      range.setEnd(...place(found + wanted.length));
      ranges.push(range);
    }
  }
  search = { text, words, ranges, current: Math.min(current, ranges.length - 1) };
  showMatches();
}

function showMatches() {
  const { text, words, ranges, current } = search;
  const isPart = [...controls("partial", text), ...controls("dropped", text)].some((note) => !note.hidden);
  const where = isPart ? " in this part" : "";
  for (const count of controls("matches", text)) {
    const most = ranges.length === MAX_MATCHES ? "+" : "";
    const shown = words ? (ranges.length ? `${current + 1} of ${ranges.length}${most}${where}` : `none${where}`) : "";
    if (count.textContent !== shown) count.textContent = shown;
  }
  if (!marksMatches) return;
  CSS.highlights.set("output-match", new Highlight(...ranges));
  CSS.highlights.set("output-current", new Highlight(...ranges.slice(Math.max(current, 0), current + 1)));
}

function step(text, by) {
  const { ranges } = search;
  if (search.text !== text || ranges.length === 0) return;
  search.current = (search.current + by + ranges.length) % ranges.length;
  showMatches();
  for (const button of controls("follow", text)) setPressed(button, false);
  // A range has no scrollIntoView.
  const match = ranges[search.current].getBoundingClientRect();
  const view = text.getBoundingClientRect();
  if (match.top < view.top || match.bottom > view.bottom) text.scrollTop += match.top - view.top - view.height / 2;
  if (match.left < view.left || match.right > view.right) text.scrollLeft += match.left - view.left - view.width / 2;
}

function named(element, name) {
  const control = element.closest?.(`[data-output-${name}]`);
  const text = control && document.getElementById(control.getAttribute(`data-output-${name}`));
  return text ? [control, text] : null;
}

document.addEventListener("click", (event) => {
  const wrap = named(event.target, "wrap");
  if (wrap) {
    const [button, text] = wrap;
    const wraps = button.getAttribute("aria-pressed") !== "true";
    setPressed(button, wraps);
    text.classList.toggle("unwrapped", !wraps);
  }
  const follow = named(event.target, "follow");
  if (follow) {
    const [button, text] = follow;
    setPressed(button, button.getAttribute("aria-pressed") !== "true");
    if (isFollowed(text)) scrollToEnd(text);
  }
  const previous = named(event.target, "previous");
  if (previous) step(previous[1], -1);
  const next = named(event.target, "next");
  if (next) step(next[1], 1);
});

document.addEventListener("input", (event) => {
  const field = named(event.target, "search");
  if (!field) return;
  find(field[1], field[0].value, 0);
  if (search.ranges.length > 0) {
    search.current = -1;
    step(field[1], 1);
  }
});

document.addEventListener("keydown", (event) => {
  const field = named(event.target, "search");
  if (!field || event.key !== "Enter") return;
  event.preventDefault();
  step(field[1], event.shiftKey ? -1 : 1);
});

// Scrolling back stops following; scrolling to the end follows again.
document.addEventListener("scroll", (event) => {
  const text = event.target;
  if (!text.classList?.contains("output-text")) return;
  if ("scrolledByScript" in text.dataset) {
    delete text.dataset.scrolledByScript;
    return;
  }
  const isAtEnd = text.scrollHeight - text.scrollTop - text.clientHeight < 8;
  for (const button of controls("follow", text)) setPressed(button, isAtEnd);
}, true);

// The live events of a task's page.
document.addEventListener("htmx:sseBeforeMessage", (event) => {
  const { type, data } = event.detail;
  const element = event.target;
  if (element.classList.contains("output-text")) {
    event.preventDefault();
    append(element, data);
  } else if (type === "reset") {
    event.preventDefault();
    for (const text of element.closest("[sse-connect]").querySelectorAll(".output-text[sse-swap]")) reset(text);
  }
});
