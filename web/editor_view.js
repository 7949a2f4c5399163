// One editor of CodeMirror in place of a text area. Its colours are variables of the style sheet.
import { basicSetup } from "codemirror";
import { indentWithTab } from "@codemirror/commands";
import { HighlightStyle, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { Compartment, EditorState, Prec } from "@codemirror/state";
import { EditorView, keymap } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { loadMode } from "./editor_languages.js";

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.modifier, tags.operatorKeyword, tags.controlKeyword, tags.definitionKeyword], color: "var(--ansi-5)" },
  { tag: [tags.string, tags.special(tags.string), tags.character, tags.regexp], color: "var(--ansi-2)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom, tags.constant(tags.name)], color: "var(--ansi-3)" },
  { tag: [tags.comment, tags.meta, tags.documentMeta], color: "var(--dim)", fontStyle: "italic" },
  { tag: [tags.typeName, tags.className, tags.namespace, tags.tagName], color: "var(--ansi-6)" },
  { tag: [tags.function(tags.variableName), tags.function(tags.propertyName), tags.macroName, tags.labelName, tags.attributeName], color: "var(--ansi-4)" },
  { tag: tags.invalid, color: "var(--bad)" },
  { tag: [tags.heading, tags.strong], fontWeight: "bold" },
  { tag: tags.emphasis, fontStyle: "italic" },
  { tag: tags.link, textDecoration: "underline" },
]);

const look = EditorView.theme({
  "&": { color: "var(--ink)", backgroundColor: "var(--raised)", border: "1px solid var(--line-strong)", borderRadius: "var(--radius)", fontSize: ".9em" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "1px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.45", maxHeight: "34rem", overflow: "auto" },
  ".cm-content, .cm-gutter": { minHeight: "14rem" },
  ".cm-content": { caretColor: "var(--ink)" },
  ".cm-cursor, .cm-dropCursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { color: "var(--dim)", backgroundColor: "var(--soft)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "transparent" },
  "&.cm-focused .cm-activeLineGutter": { color: "var(--ink)", backgroundColor: "var(--line)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--selection)" },
  "&.cm-focused .cm-matchingBracket, .cm-matchingBracket": { backgroundColor: "transparent", outline: "1px solid var(--accent)" },
  "&.cm-focused .cm-nonmatchingBracket": { backgroundColor: "transparent", outline: "1px solid var(--bad)" },
  ".cm-selectionMatch": { backgroundColor: "var(--soft)" },
  ".cm-searchMatch": { backgroundColor: "var(--mark)", color: "var(--on-mark)" },
  ".cm-panels, .cm-tooltip": { color: "var(--ink)", backgroundColor: "var(--raised)", borderColor: "var(--line-strong)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { color: "var(--on-accent)", backgroundColor: "var(--accent)" },
  ".cm-panel.cm-search label": { fontSize: ".9em" },
  ".cm-button, .cm-textfield": { color: "var(--ink)", backgroundColor: "var(--raised)", backgroundImage: "none", borderColor: "var(--line-strong)" },
  ".cm-foldPlaceholder": { color: "var(--dim)", backgroundColor: "var(--soft)", borderColor: "var(--line)" },
});

// Replaces a selection by what is typed. Otherwise Chromium would do it, with a style attribute that the policy of the page refuses.
const replaceSelection = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { from, to, empty } = view.state.selection.main;
    if (event.inputType !== "insertText" || empty || !event.data || view.composing) return false;
    event.preventDefault();
    const insert = () => view.state.update(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
    const handlers = view.state.facet(EditorView.inputHandler);
    if (!handlers.some((handle) => handle(view, from, to, event.data, insert))) view.dispatch(insert());
    return true;
  },
});

// The width of the indentation that a text has already: tabs, or the narrowest spaces.
function indentOf(text) {
  if (/^\t/m.test(text)) return "\t";
  const widths = [...text.matchAll(/^( {2,8})\S/gm)].map((found) => found[1].length);
  return " ".repeat(widths.length ? Math.min(...widths) : 4);
}

export class TextEditor {
  #area;
  #language = new Compartment();
  #labels = new Compartment();
  #mode = null;

  constructor(area, { nonce, label, onChange, onRun }) {
    this.#area = area;
    this.view = new EditorView({
      state: EditorState.create({
        doc: area.value,
        extensions: [
          EditorView.cspNonce.of(nonce),
          Prec.highest(keymap.of([{ key: "Mod-Enter", run: () => (onRun(), true) }])),
          basicSetup,
          keymap.of([indentWithTab]),
          replaceSelection,
          indentUnit.of(indentOf(area.value)),
          syntaxHighlighting(colours),
          look,
          this.#language.of([]),
          this.#labels.of(attributes(label)),
          EditorView.updateListener.of((update) => {
            if (!update.docChanged) return;
            area.value = update.state.doc.toString();
            onChange();
          }),
        ],
      }),
    });
    area.hidden = true;
    area.after(this.view.dom);
  }

  get text() {
    return this.view.state.doc.toString();
  }

  set text(text) {
    const { state } = this.view;
    this.view.dispatch({ changes: { from: 0, to: state.doc.length, insert: text } });
  }

  set label(label) {
    this.view.dispatch({ effects: this.#labels.reconfigure(attributes(label)) });
  }

  async setMode(name) {
    if (name === this.#mode) return;
    this.#mode = name;
    const support = await loadMode(name).catch(() => null);
    if (name === this.#mode) this.view.dispatch({ effects: this.#language.reconfigure(support ?? []) });
  }

  focus() {
    this.view.focus();
  }

  destroy() {
    this.#area.hidden = false;
    this.view.destroy();
  }
}

const attributes = (label) => EditorView.contentAttributes.of({ "aria-label": label, "aria-describedby": "run-keys", tabindex: "0" });
