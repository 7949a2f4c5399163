//! How much the JSON of a request may hold, counted while it is read.
//!
//! A few bytes of JSON can take a hundred times as many in memory (`{"a":"",` is a file), so a check of what has been
//! read comes too late. The bounds here are against a flood only: how many files, words and variables a task may have
//! is the judicator's to say.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::NewTask;

/// Files of `source` or of `data`, words of a command, arguments, or variables of one step.
pub(crate) const ITEMS: usize = 10_000;

/// The same for all tasks of a request together.
pub(crate) const ITEMS_OF_ALL: usize = 200_000;

/// Serde has no way to hand a value through derived code, and parsing stays on its thread.
#[derive(Clone, Copy)]
struct Left {
    tasks: usize,
    items: usize,
}

thread_local! {
    /// Nothing is counted outside of `within`: a client trusts its server.
    static LEFT: Cell<Option<Left>> = const { Cell::new(None) };
}

/// Reads something with these bounds.
pub(crate) fn within<T>(tasks: usize, read: impl FnOnce() -> T) -> T {
    let items = ITEMS_OF_ALL;
    let outer = LEFT.replace(Some(Left { tasks, items }));
    let result = read();
    LEFT.set(outer);
    result
}

/// What there is too much of.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Tasks,
    Files,
    Words,
    Variables,
}

impl Kind {
    /// The judicator says the same of what goes beyond its own bounds.
    fn problem(self) -> &'static str {
        match self {
            Kind::Tasks => "has too many tasks",
            Kind::Files => "has too many files",
            Kind::Words => "has too many words",
            Kind::Variables => "has too many variables",
        }
    }
}

/// Counts the items of one list or object.
pub(crate) struct Count {
    kind: Kind,
    limit: usize,
    read: usize,
}

impl Count {
    pub(crate) fn new(kind: Kind) -> Count {
        let limit = match (LEFT.get(), kind) {
            (None, _) => usize::MAX,
            (Some(left), Kind::Tasks) => left.tasks,
            (Some(_), Kind::Files | Kind::Words | Kind::Variables) => ITEMS,
        };
        Count { kind, limit, read: 0 }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.read == self.limit
    }

    /// One more was read.
    pub(crate) fn add<E: Error>(&mut self) -> Result<(), E> {
        self.read += 1;
        let (Some(left), Kind::Files | Kind::Words | Kind::Variables) = (LEFT.get(), self.kind) else {
            return Ok(());
        };
        let Some(items) = left.items.checked_sub(1) else {
            let problem = "has too many files, words and variables in all its tasks";
            return Err(beyond(problem, ITEMS_OF_ALL, format!("more than {ITEMS_OF_ALL}")));
        };
        LEFT.set(Some(Left { items, ..left }));
        Ok(())
    }

    /// `rest` are those that were not kept.
    pub(crate) fn end<E: Error>(&self, rest: usize) -> Result<(), E> {
        match rest {
            0 => Ok(()),
            _ => Err(beyond(self.kind.problem(), self.limit, self.read + rest)),
        }
    }
}

/// `parse` takes the numbers out of it again.
fn beyond<E: Error>(problem: &str, limit: usize, actual: impl fmt::Display) -> E {
    E::custom(format!("{problem} (limit {limit}, actual {actual})"))
}

/// Those that are left are looked at and not kept, to say how many there are.
pub(crate) fn rest_of_list<'de, A: SeqAccess<'de>>(list: &mut A) -> Result<usize, A::Error> {
    let mut rest = 0;
    while list.next_element::<IgnoredAny>()?.is_some() {
        rest += 1;
    }
    Ok(rest)
}

pub(crate) fn rest_of_map<'de, A: MapAccess<'de>>(map: &mut A) -> Result<usize, A::Error> {
    let mut rest = 0;
    while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
        rest += 1;
    }
    Ok(rest)
}

pub(crate) fn tasks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<NewTask>, D::Error> {
    deserializer.deserialize_seq(ListVisitor::new(Kind::Tasks))
}

pub(crate) fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    deserializer.deserialize_seq(ListVisitor::new(Kind::Words))
}

pub(crate) fn read_list<'de, T, A>(kind: Kind, mut list: A) -> Result<Vec<T>, A::Error>
where
    T: Deserialize<'de>,
    A: SeqAccess<'de>,
{
    let mut count = Count::new(kind);
    let mut items = Vec::new();
    while !count.is_full() {
        match list.next_element()? {
            Some(item) => items.push(item),
            None => return Ok(items),
        }
        count.add()?;
    }
    count.end(rest_of_list(&mut list)?)?;
    Ok(items)
}

struct ListVisitor<T> {
    kind: Kind,
    item: PhantomData<T>,
}

impl<T> ListVisitor<T> {
    fn new(kind: Kind) -> ListVisitor<T> {
        let item = PhantomData;
        ListVisitor { kind, item }
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Vec<T>, A::Error> {
        read_list(self.kind, list)
    }
}

pub(crate) fn variables<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    struct VariablesVisitor;

    impl<'de> Visitor<'de> for VariablesVisitor {
        type Value = BTreeMap<String, String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut count = Count::new(Kind::Variables);
            let mut variables = BTreeMap::new();
            while !count.is_full() {
                match map.next_entry()? {
                    Some((name, value)) => drop(variables.insert(name, value)),
                    None => return Ok(variables),
                }
                count.add()?;
            }
            count.end(rest_of_map(&mut map)?)?;
            Ok(variables)
        }
    }

    deserializer.deserialize_map(VariablesVisitor)
}

#[cfg(test)]
mod tests {
    use model::Invalid;

    use super::*;
    use crate::{NewTasks, ParseError, parse, parse_batch};

    fn invalid<T: fmt::Debug>(parsed: Result<T, ParseError>) -> Invalid {
        match parsed {
            Err(ParseError::Invalid(invalid)) => invalid,
            other => panic!("{other:?}"),
        }
    }

    fn repeated(count: usize, item: impl Fn(usize) -> String) -> String {
        (0..count).map(item).collect::<Vec<_>>().join(",")
    }

    #[test]
    fn tasks_are_counted_while_they_are_read() {
        let json = |count| format!(r#"{{"tasks":[{}]}}"#, repeated(count, |_| TASK.into()));
        assert_eq!(parse_batch(json(3).as_bytes(), 3).unwrap().tasks.len(), 3);
        let wrong = invalid(parse_batch(json(7).as_bytes(), 3));
        assert_eq!(wrong, Invalid::beyond("tasks", "has too many tasks", 3, 7));
        // What is beyond the bound is never made: a mistake in it is not even seen.
        let json = format!(r#"{{"tasks":[{TASK},{{"execute":7}}]}}"#);
        let wrong = invalid(parse_batch(json.as_bytes(), 1));
        assert_eq!(wrong, Invalid::beyond("tasks", "has too many tasks", 1, 2));
    }

    const TASK: &str = r#"{"execute":{"command":"a"}}"#;

    #[test]
    fn files_words_and_variables_are_counted_while_they_are_read() {
        let text = |count| repeated(count, |_| r#""""#.into());
        let named = |count| repeated(count, |n| format!(r#""{n:x}":"""#));
        let check = |json: &dyn Fn(usize) -> String, field: &str, problem: &str| {
            parse::<NewTask>(json(ITEMS).as_bytes()).unwrap();
            let wrong = invalid(parse::<NewTask>(json(ITEMS + 2).as_bytes()));
            assert_eq!(wrong, Invalid::beyond(field, problem, ITEMS, ITEMS + 2));
            // A client that reads an answer does not count.
            serde_json::from_str::<NewTask>(&json(ITEMS + 2)).unwrap();
        };
        check(
            &|count| format!(r#"{{"execute":{{"command":"a","args":[{}]}}}}"#, text(count)),
            "execute.args",
            "has too many words",
        );
        check(
            &|count| format!(r#"{{"execute":{{"command":[{}]}}}}"#, text(count)),
            "execute.command",
            "has too many words",
        );
        check(
            &|count| format!(r#"{{"execute":{{"command":"a","env":{{{}}}}}}}"#, named(count)),
            "execute.env",
            "has too many variables",
        );
        check(
            &|count| {
                let compile = format!(r#"{{"command":"a","env":{{{}}}}}"#, named(count));
                format!(r#"{{"compile":{compile},"execute":{{"command":"a"}}}}"#)
            },
            "compile.env",
            "has too many variables",
        );
        for field in ["source", "data"] {
            check(
                &|count| {
                    format!(
                        r#"{{"execute":{{"command":"a"}},"{field}":{{{}}}}}"#,
                        named(count)
                    )
                },
                field,
                "has too many files",
            );
        }
    }

    #[test]
    fn all_tasks_of_a_batch_are_bounded_together() {
        let args = repeated(ITEMS, |_| r#""""#.into());
        let task = format!(r#"{{"execute":{{"command":"a","args":[{args}]}}}}"#);
        let json = |count| format!(r#"{{"tasks":[{}]}}"#, repeated(count, |_| task.clone()));
        let most = ITEMS_OF_ALL / ITEMS;
        parse::<NewTasks>(json(most).as_bytes()).unwrap();
        let wrong = invalid(parse::<NewTasks>(json(most + 1).as_bytes()));
        assert!(wrong.problem.contains("in all its tasks"), "{wrong}");
        assert_eq!(wrong.limit, Some(ITEMS_OF_ALL.to_string()));
        assert!(wrong.field.starts_with(&format!("tasks[{most}]")), "{wrong}");
        // The next request begins anew.
        parse::<NewTasks>(json(most).as_bytes()).unwrap();
    }
}
