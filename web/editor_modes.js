// Modes for languages that CodeMirror's packages do not have: comments, texts, numbers and keywords.
function mode({ name, line, block = [], quotes = ['"'], keywords, types = [], ignoreCase = false, atom = null }) {
  const fold = (word) => (ignoreCase ? word.toLowerCase() : word);
  const words = new Map();
  for (const word of types) words.set(word, "typeName");
  for (const word of keywords) words.set(word, "keyword");
  const lines = [line].flat().filter(Boolean);
  return {
    name,
    startState: () => ({ end: null }),
    token(stream, state) {
      if (state.end) {
        const whole = stream.string.indexOf(state.end.text, stream.pos);
        if (whole < 0) stream.skipToEnd();
        else {
          stream.pos = whole + state.end.text.length;
          const style = state.end.style;
          state.end = null;
          return style;
        }
        return state.end.style;
      }
      if (stream.eatSpace()) return null;
      for (const start of lines) {
        if (stream.match(start)) {
          stream.skipToEnd();
          return "comment";
        }
      }
      for (const [start, end, style = "comment"] of block) {
        if (stream.match(start)) {
          state.end = { text: end, style };
          return style;
        }
      }
      for (const quote of quotes) {
        if (stream.eat(quote)) {
          for (let escaped = false, next; (next = stream.next()); ) {
            if (next === quote && !escaped) break;
            escaped = !escaped && next === "\\";
          }
          return "string";
        }
      }
      if (stream.match(/^\d[\w.]*/)) return "number";
      if (atom && stream.match(atom)) return "atom";
      const word = stream.match(/^[\p{L}_@][\p{L}\p{N}_]*[!?]?/u);
      if (word) return words.get(fold(word[0])) ?? null;
      stream.next();
      return null;
    },
    languageData: { commentTokens: lines[0] ? { line: lines[0] } : {} },
  };
}

const split = (text) => text.trim().split(/\s+/);

export const ada = mode({
  name: "ada", line: "--", ignoreCase: true,
  keywords: split(`abort abs accept access all and array at begin body case constant declare delay do else elsif end entry exception exit for function
    generic goto if in interface is limited loop mod new not null of or others out overriding package pragma private procedure protected raise range
    record rem renames requeue return reverse select separate some subtype synchronized tagged task terminate then type until use when while with xor`),
  types: split("boolean character duration float integer natural positive string"),
});

export const awk = mode({
  name: "awk", line: "#",
  keywords: split("BEGIN END break case continue default delete do else exit for function getline if in next nextfile print printf return switch while"),
  types: split("FILENAME FNR FS NF NR OFS ORS RS RSTART RLENGTH SUBSEP"),
});

export const elixir = mode({
  name: "elixir", line: "#", block: [['"""', '"""', "string"]], quotes: ['"', "'"], atom: /^:[\w@]+[!?]?|^\w+:(?=\s)/,
  keywords: split(`after alias and case catch cond def defdelegate defguard defimpl defmacro defmodule defp defprotocol defstruct do else end fn for if
    import in not or quote raise receive require rescue super throw try unless unquote use when with`),
  types: split("true false nil"),
});

export const nim = mode({
  name: "nim", line: "#", block: [["#[", "]#"], ['"""', '"""', "string"]], quotes: ['"'],
  keywords: split(`addr and as asm bind block break case cast concept const continue converter defer discard distinct div do elif else end enum except
    export finally for from func if import in include interface is isnot iterator let macro method mixin mod nil not notin object of or out proc ptr
    raise ref return shl shr static template try tuple type using var when while xor yield`),
  types: split("bool char float int string seq array set true false"),
});

export const prolog = mode({
  name: "prolog", line: "%", block: [["/*", "*/"]], quotes: ['"', "'"],
  keywords: split("is mod rem div dynamic discontiguous module use_module initialization"), types: split("true fail false nl write writeln read halt"),
});

export const sed = mode({ name: "sed", line: "#", quotes: [], keywords: [] });

export const vala = mode({
  name: "vala", line: "//", block: [["/*", "*/"]],
  keywords: split(`abstract as base break case catch class const construct continue default delegate delete do dynamic else ensures enum errordomain
    extern finally for foreach get if in inline interface internal is lock namespace new null out override owned params private protected public ref
    requires return set signal sizeof static struct switch this throw throws try typeof unowned using var virtual void volatile weak while yield`),
  types: split("bool char double float int int64 long string uchar uint uint64 true false"),
});

export const zig = mode({
  name: "zig", line: ["//", "\\\\"], quotes: ['"', "'"],
  keywords: split(`addrspace align and anyframe anytype asm async await break callconv catch comptime const continue defer else enum errdefer error export
    extern fn for if inline noalias nosuspend opaque or orelse packed pub resume return struct suspend switch test threadlocal try union unreachable
    usingnamespace var volatile while`),
  types: split("bool f32 f64 i8 i16 i32 i64 isize null type u8 u16 u32 u64 usize undefined void true false"),
});
