//! Limits on the number of items in the JSON of a request, enforced while it is parsed.
//!
//! A few bytes of JSON can take a hundred times as many bytes in memory (`{"a":"",` is a file), so a check after
//! parsing would come too late. These limits only protect the memory of the server; the judicator checks how many files,
//! words and variables a task may have.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use model::Judging;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::NewTask;

/// The limit for each list: files of `source` or `data`, words of a command, arguments, variables of one step, patterns of
/// files to keep, labels, groups of cases.
pub(crate) const MAX_ITEMS_PER_LIST: usize = 10_000;

/// The limit for the items of all tasks of a request together.
pub(crate) const MAX_ITEMS_PER_REQUEST: usize = 200_000;

/// How many more tasks and items the JSON of the request being parsed may contain, to protect the memory.
#[derive(Clone, Copy)]
struct RemainingBudget {
    tasks: usize,
    items: usize,
}

thread_local! {
    /// Serde cannot pass a value through derived code, so the budget is thread-local; parsing stays on one thread.
    /// `None` outside of `with_budget`: a client does not limit what its server sends.
    static BUDGET: Cell<Option<RemainingBudget>> = const { Cell::new(None) };
}

/// Parses something with a new budget of tasks and items.
pub(crate) fn with_budget<T>(tasks: usize, read: impl FnOnce() -> T) -> T {
    let items = MAX_ITEMS_PER_REQUEST;
    let outer = BUDGET.replace(Some(RemainingBudget { tasks, items }));
    let result = read();
    BUDGET.set(outer);
    result
}

/// The kind of items in the JSON of a request whose number is limited while it is parsed.
#[derive(Clone, Copy)]
pub(crate) enum CountedItem {
    Tasks,
    Cases,
    Files,
    Words,
    Variables,
    Patterns,
    Labels,
    Groups,
}

impl CountedItem {
    /// The judicator uses the same words for its own limits.
    fn problem(self) -> &'static str {
        match self {
            CountedItem::Tasks => "has too many tasks",
            CountedItem::Cases => "has too many cases",
            CountedItem::Files => "has too many files",
            CountedItem::Words => "has too many words",
            CountedItem::Variables => "has too many variables",
            CountedItem::Patterns => "has too many patterns",
            CountedItem::Labels => "has too many labels",
            CountedItem::Groups => "has too many groups",
        }
    }
}

/// Counts the items of one list or object in the JSON of a request while it is parsed, and enforces the limit.
pub(crate) struct ItemCounter {
    kind: CountedItem,
    limit: usize,
    read: usize,
}

impl ItemCounter {
    pub(crate) fn new(kind: CountedItem) -> ItemCounter {
        let limit = match (BUDGET.get(), kind) {
            (None, _) => usize::MAX,
            (Some(budget), CountedItem::Tasks) => budget.tasks,
            (Some(_), CountedItem::Cases) => Judging::MAX_CASES,
            (Some(_), _) => MAX_ITEMS_PER_LIST,
        };
        ItemCounter { kind, limit, read: 0 }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.read == self.limit
    }

    /// Counts an item that was parsed.
    pub(crate) fn add<E: Error>(&mut self) -> Result<(), E> {
        self.read += 1;
        let Some(budget) = BUDGET.get().filter(|_| !matches!(self.kind, CountedItem::Tasks)) else {
            return Ok(());
        };
        let Some(items) = budget.items.checked_sub(1) else {
            let problem = "has too many cases, files, words and variables in all its tasks";
            return Err(limit_error(
                problem,
                MAX_ITEMS_PER_REQUEST,
                format!("more than {MAX_ITEMS_PER_REQUEST}"),
            ));
        };
        BUDGET.set(Some(RemainingBudget { items, ..budget }));
        Ok(())
    }

    /// Fails if there were `rest` more items after the limit was reached.
    pub(crate) fn finish<E: Error>(&self, rest: usize) -> Result<(), E> {
        match rest {
            0 => Ok(()),
            _ => Err(limit_error(self.kind.problem(), self.limit, self.read + rest)),
        }
    }
}

/// Serde errors are text only; `parse::split_limit_error` extracts the numbers again.
fn limit_error<E: Error>(problem: &str, limit: usize, actual: impl fmt::Display) -> E {
    E::custom(format!("{problem} (limit {limit}, actual {actual})"))
}

/// Skips the remaining items and counts them for the error message.
pub(crate) fn count_rest_of_list<'de, A: SeqAccess<'de>>(list: &mut A) -> Result<usize, A::Error> {
    let mut rest = 0;
    while list.next_element::<IgnoredAny>()?.is_some() {
        rest += 1;
    }
    Ok(rest)
}

pub(crate) fn count_rest_of_map<'de, A: MapAccess<'de>>(map: &mut A) -> Result<usize, A::Error> {
    let mut rest = 0;
    while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
        rest += 1;
    }
    Ok(rest)
}

pub(crate) fn tasks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<NewTask>, D::Error> {
    deserializer.deserialize_seq(ListVisitor::new(CountedItem::Tasks))
}

pub(crate) fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    deserializer.deserialize_seq(ListVisitor::new(CountedItem::Words))
}

pub(crate) fn read_list<'de, T, A>(kind: CountedItem, mut list: A) -> Result<Vec<T>, A::Error>
where
    T: Deserialize<'de>,
    A: SeqAccess<'de>,
{
    let mut count = ItemCounter::new(kind);
    let mut items = Vec::new();
    while !count.is_full() {
        match list.next_element()? {
            Some(item) => items.push(item),
            None => return Ok(items),
        }
        count.add()?;
    }
    count.finish(count_rest_of_list(&mut list)?)?;
    Ok(items)
}

/// A serde visitor that parses a list in the JSON of a request with a limited number of items.
pub(crate) struct ListVisitor<T> {
    kind: CountedItem,
    item: PhantomData<T>,
}

impl<T> ListVisitor<T> {
    pub(crate) fn new(kind: CountedItem) -> ListVisitor<T> {
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
    text_by_name(CountedItem::Variables, deserializer)
}

pub(crate) fn text_by_name<'de, D: Deserializer<'de>>(
    kind: CountedItem,
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    /// A serde visitor that parses a limited number of environment variables or labels from JSON.
    struct TextByNameVisitor(CountedItem);

    impl<'de> Visitor<'de> for TextByNameVisitor {
        type Value = BTreeMap<String, String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut count = ItemCounter::new(self.0);
            let mut variables = BTreeMap::new();
            while !count.is_full() {
                match map.next_entry()? {
                    Some((name, value)) => drop(variables.insert(name, value)),
                    None => return Ok(variables),
                }
                count.add()?;
            }
            count.finish(count_rest_of_map(&mut map)?)?;
            Ok(variables)
        }
    }

    deserializer.deserialize_map(TextByNameVisitor(kind))
}

#[cfg(test)]
mod tests {
    use model::InvalidField;

    use super::*;
    use crate::{NewTasks, ParseError, parse_json, parse_task_batch};

    fn invalid<T: fmt::Debug>(parsed: Result<T, ParseError>) -> InvalidField {
        match parsed {
            Err(ParseError::Invalid(invalid)) => invalid,
            other => panic!("{other:?}"),
        }
    }

    fn repeated(count: usize, item: impl Fn(usize) -> String) -> String {
        (0..count).map(item).collect::<Vec<_>>().join(",")
    }

    #[test]
    fn tasks_are_counted_while_they_are_parsed() {
        let json = |count| format!(r#"{{"tasks":[{}]}}"#, repeated(count, |_| TASK.into()));
        assert_eq!(parse_task_batch(json(3).as_bytes(), 3).unwrap().tasks.len(), 3);
        let wrong = invalid(parse_task_batch(json(7).as_bytes(), 3));
        assert_eq!(
            wrong,
            InvalidField::over_limit("tasks", "has too many tasks", 3, 7)
        );
        // Items beyond the limit are skipped, so a mistake in them is not reported.
        let json = format!(r#"{{"tasks":[{TASK},{{"execute":7}}]}}"#);
        let wrong = invalid(parse_task_batch(json.as_bytes(), 1));
        assert_eq!(
            wrong,
            InvalidField::over_limit("tasks", "has too many tasks", 1, 2)
        );
    }

    const TASK: &str = r#"{"execute":{"command":"a"}}"#;

    #[test]
    fn files_words_and_variables_are_counted_while_they_are_parsed() {
        let text = |count| repeated(count, |_| r#""""#.into());
        let named = |count| repeated(count, |n| format!(r#""{n:x}":"""#));
        let check = |json: &dyn Fn(usize) -> String, field: &str, problem: &str| {
            parse_json::<NewTask>(json(MAX_ITEMS_PER_LIST).as_bytes()).unwrap();
            let wrong = invalid(parse_json::<NewTask>(json(MAX_ITEMS_PER_LIST + 2).as_bytes()));
            assert_eq!(
                wrong,
                InvalidField::over_limit(field, problem, MAX_ITEMS_PER_LIST, MAX_ITEMS_PER_LIST + 2)
            );
            // A client that parses a response has no limits.
            serde_json::from_str::<NewTask>(&json(MAX_ITEMS_PER_LIST + 2)).unwrap();
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
    fn the_items_of_all_tasks_of_a_batch_are_limited_together() {
        let args = repeated(MAX_ITEMS_PER_LIST, |_| r#""""#.into());
        let task = format!(r#"{{"execute":{{"command":"a","args":[{args}]}}}}"#);
        let json = |count| format!(r#"{{"tasks":[{}]}}"#, repeated(count, |_| task.clone()));
        let most = MAX_ITEMS_PER_REQUEST / MAX_ITEMS_PER_LIST;
        parse_json::<NewTasks>(json(most).as_bytes()).unwrap();
        let wrong = invalid(parse_json::<NewTasks>(json(most + 1).as_bytes()));
        assert!(wrong.problem.contains("in all its tasks"), "{wrong}");
        assert_eq!(wrong.limit, Some(MAX_ITEMS_PER_REQUEST.to_string()));
        assert!(wrong.field.starts_with(&format!("tasks[{most}]")), "{wrong}");
        // The next request has its own budget.
        parse_json::<NewTasks>(json(most).as_bytes()).unwrap();
    }
}
