// Choosing rows of a list that changes while it is shown. What was chosen stays chosen, also when its row has gone.

// The chosen values of each form.
const chosenIn = new WeakMap();

function chosenOf(form) {
  if (!chosenIn.has(form)) chosenIn.set(form, new Set());
  return chosenIn.get(form);
}

function boxesOf(form) {
  return [...form.querySelectorAll("input[type=checkbox]")].filter((box) => box.name === form.dataset.choose);
}

// Makes the form send what is chosen: by its boxes, and by hidden fields for rows that are not shown any more.
function show(form) {
  const chosen = chosenOf(form);
  const boxes = boxesOf(form);
  for (const box of boxes) box.checked = chosen.has(box.value);
  const shown = new Set(boxes.map((box) => box.value));
  const hidden = [...chosen].filter((value) => !shown.has(value));
  let rest = form.querySelector("[data-chosen-rest]");
  if (!rest) {
    rest = document.createElement("span");
    rest.hidden = true;
    rest.dataset.chosenRest = "";
    form.append(rest);
  }
  rest.replaceChildren(...hidden.map((value) => {
    const field = document.createElement("input");
    field.type = "hidden";
    field.name = form.dataset.choose;
    field.value = value;
    return field;
  }));
  const all = form.querySelector("[data-choose-all]");
  if (all) {
    const checked = boxes.filter((box) => box.checked).length;
    all.checked = checked > 0 && checked === boxes.length;
    all.indeterminate = checked > 0 && checked < boxes.length;
  }
  const number = form.querySelector("[data-chosen]");
  const text = chosen.size > 0 ? `(${chosen.size})` : "";
  if (number && number.textContent !== text) number.textContent = text;
}

document.addEventListener("change", (event) => {
  const form = event.target.closest?.("form[data-choose]");
  if (!form) return;
  const chosen = chosenOf(form);
  const boxes = event.target.matches("[data-choose-all]") ? boxesOf(form) : [event.target];
  for (const box of boxes) {
    if (event.target.checked) chosen.add(box.value);
    else chosen.delete(box.value);
  }
  show(form);
});

// A morphed box has the state that the server sent, which is none.
document.addEventListener("htmx:sseMessage", (event) => {
  const form = event.target.closest?.("form[data-choose]");
  if (form) show(form);
});
