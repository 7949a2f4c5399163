// Times that go on: how long ago something began, and the fields of forms with times in the reader's zone.

function inWords(seconds) {
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds / 60) % 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds / 3600) % 24)} h`;
}

function showAges() {
  if (document.hidden) return;
  for (const element of document.querySelectorAll("[data-since]")) {
    const since = Date.parse(element.dataset.since);
    if (Number.isNaN(since)) continue;
    // The clocks of the server and of the reader differ a little.
    const text = inWords(Math.max(0, Math.floor((Date.now() - since) / 1000)));
    if (element.textContent !== text) element.textContent = text;
  }
}

// The value of a control for a local time.
function localValue(time) {
  const shifted = new Date(time.getTime() - time.getTimezoneOffset() * 60000);
  return shifted.toISOString().slice(0, 19);
}

for (const field of document.querySelectorAll("input[data-utc]")) {
  const time = new Date(`${field.value}Z`);
  if (field.value && !Number.isNaN(time.getTime())) field.value = localValue(time);
  const zone = field.closest("label")?.querySelector("[data-zone]");
  if (zone) zone.textContent = "(your time)";
}

document.addEventListener("formdata", (event) => {
  for (const field of event.target.querySelectorAll("input[data-utc]")) {
    const time = new Date(field.value);
    if (field.value && !Number.isNaN(time.getTime())) event.formData.set(field.name, time.toISOString());
  }
  if (event.target.method !== "get") return;
  // URLs have what was given only.
  for (const [name, value] of [...event.formData]) {
    if (value !== "") continue;
    const given = event.formData.getAll(name).filter((other) => other !== "");
    event.formData.delete(name);
    for (const other of given) event.formData.append(name, other);
  }
});

showAges();
setInterval(showAges, 1000);
document.addEventListener("htmx:sseMessage", showAges);
