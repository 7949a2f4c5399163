// Which syntax colours a file gets. Every mode is a file of its own, which the browser loads when it is needed.
import { StreamLanguage } from "@codemirror/language";

const stream = (loading, name) => () => loading().then((modes) => StreamLanguage.define(modes[name]));
const clike = () => import("@codemirror/legacy-modes/mode/clike");
const mllike = () => import("@codemirror/legacy-modes/mode/mllike");
const own = (name) => stream(() => import("./editor_modes.js"), name);

const modes = {
  ada: own("ada"),
  assembly: stream(() => import("@codemirror/legacy-modes/mode/gas"), "gas"),
  awk: own("awk"),
  c: () => import("@codemirror/lang-cpp").then(({ cpp }) => cpp()),
  clojure: stream(() => import("@codemirror/legacy-modes/mode/clojure"), "clojure"),
  cobol: stream(() => import("@codemirror/legacy-modes/mode/cobol"), "cobol"),
  coffeescript: stream(() => import("@codemirror/legacy-modes/mode/coffeescript"), "coffeeScript"),
  commonlisp: stream(() => import("@codemirror/legacy-modes/mode/commonlisp"), "commonLisp"),
  crystal: stream(() => import("@codemirror/legacy-modes/mode/crystal"), "crystal"),
  csharp: stream(clike, "csharp"),
  d: stream(() => import("@codemirror/legacy-modes/mode/d"), "d"),
  elixir: own("elixir"),
  erlang: stream(() => import("@codemirror/legacy-modes/mode/erlang"), "erlang"),
  forth: stream(() => import("@codemirror/legacy-modes/mode/forth"), "forth"),
  fortran: stream(() => import("@codemirror/legacy-modes/mode/fortran"), "fortran"),
  fsharp: stream(mllike, "fSharp"),
  go: () => import("@codemirror/lang-go").then(({ go }) => go()),
  groovy: stream(() => import("@codemirror/legacy-modes/mode/groovy"), "groovy"),
  haskell: stream(() => import("@codemirror/legacy-modes/mode/haskell"), "haskell"),
  java: () => import("@codemirror/lang-java").then(({ java }) => java()),
  javascript: () => import("@codemirror/lang-javascript").then(({ javascript }) => javascript()),
  json: () => import("@codemirror/lang-json").then(({ json }) => json()),
  julia: stream(() => import("@codemirror/legacy-modes/mode/julia"), "julia"),
  kotlin: stream(clike, "kotlin"),
  lua: stream(() => import("@codemirror/legacy-modes/mode/lua"), "lua"),
  markdown: () => import("@codemirror/lang-markdown").then(({ markdown }) => markdown()),
  nim: own("nim"),
  objectivec: stream(clike, "objectiveC"),
  ocaml: stream(mllike, "oCaml"),
  octave: stream(() => import("@codemirror/legacy-modes/mode/octave"), "octave"),
  pascal: stream(() => import("@codemirror/legacy-modes/mode/pascal"), "pascal"),
  perl: stream(() => import("@codemirror/legacy-modes/mode/perl"), "perl"),
  php: () => import("@codemirror/lang-php").then(({ php }) => php()),
  prolog: own("prolog"),
  python: () => import("@codemirror/lang-python").then(({ python }) => python()),
  r: stream(() => import("@codemirror/legacy-modes/mode/r"), "r"),
  ruby: stream(() => import("@codemirror/legacy-modes/mode/ruby"), "ruby"),
  rust: () => import("@codemirror/lang-rust").then(({ rust }) => rust()),
  scala: stream(clike, "scala"),
  scheme: stream(() => import("@codemirror/legacy-modes/mode/scheme"), "scheme"),
  sed: own("sed"),
  shell: stream(() => import("@codemirror/legacy-modes/mode/shell"), "shell"),
  sml: stream(mllike, "sml"),
  sql: () => import("@codemirror/lang-sql").then(({ sql }) => sql()),
  tcl: stream(() => import("@codemirror/legacy-modes/mode/tcl"), "tcl"),
  typescript: () => import("@codemirror/lang-javascript").then(({ javascript }) => javascript({ typescript: true })),
  vala: own("vala"),
  zig: own("zig"),
};

// Rows of the language table that share the mode of another one. A row without a mode, like text, has no colours.
const sameMode = { cpp: "c", cpp20: "c", cpp23: "c", pypy: "python", luajit: "lua", bash: "shell", racket: "scheme" };

const byExtension = {
  adb: "ada", ads: "ada", asm: "assembly", s: "assembly", S: "assembly", awk: "awk", bash: "shell", c: "c", "c++": "c", cc: "c", cpp: "c",
  cxx: "c", h: "c", hh: "c", hpp: "c", clj: "clojure", cob: "cobol", cbl: "cobol", coffee: "coffeescript", lisp: "commonlisp", cl: "commonlisp",
  cr: "crystal", cs: "csharp", d: "d", erl: "erlang", hrl: "erlang", ex: "elixir", exs: "elixir", f: "fortran", f90: "fortran", f95: "fortran",
  fs: "fsharp", fsx: "fsharp", fth: "forth", go: "go", groovy: "groovy", hs: "haskell", java: "java", js: "javascript", mjs: "javascript",
  jsx: "javascript", json: "json", jl: "julia", kt: "kotlin", kts: "kotlin", lua: "lua", m: null, md: "markdown", ml: "ocaml", mli: "ocaml",
  nim: "nim", p: "pascal", pas: "pascal", php: "php", pl: null, pm: "perl", pp: "pascal", py: "python", r: "r", R: "r", rb: "ruby", rkt: "scheme",
  rs: "rust", scala: "scala", scm: "scheme", sed: "sed", sh: "shell", sml: "sml", sql: "sql", ss: "scheme", tcl: "tcl", ts: "typescript",
  txt: "text", csv: "text", vala: "vala", zig: "zig",
};

// The mode of a row of the language table; undefined if it has none.
export function modeOfLanguage(language) {
  const name = sameMode[language] ?? language;
  return Object.hasOwn(modes, name) ? name : undefined;
}

// The mode of a file: that of its extension, or of the chosen language. `m` and `pl` belong to two languages each.
export function modeOfFile(path, language) {
  const name = path.slice(path.lastIndexOf("/") + 1);
  const extension = name.includes(".") ? name.slice(name.lastIndexOf(".") + 1) : "";
  const known = Object.hasOwn(byExtension, extension) ? byExtension[extension] : null;
  return known ?? modeOfLanguage(language);
}

// The support for a mode, or null.
export function loadMode(name) {
  return Object.hasOwn(modes, name ?? "") ? modes[name]() : Promise.resolve(null);
}
