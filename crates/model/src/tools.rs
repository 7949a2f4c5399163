//! The languages and roots of executors, and which of them a task requires.

mod queue_keys;

use std::fmt;
use std::str::FromStr;

pub use queue_keys::QueueKeys;

use crate::{BlobHash, InvalidField, LanguageName, NameError, RootName, TaskSpec};

/// The language and the root that an executor must have to run a task, and those for the program that judges it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolRequirement {
    pub root: Option<RootName>,
    pub language: Option<LanguageName>,
    /// `None` if the program that judges needs nothing, or the same as the task.
    pub judge: Option<JudgeTools>,
}

/// The language and the root that the program which judges a task needs. At least one of them is given.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JudgeTools {
    pub root: Option<RootName>,
    pub language: Option<LanguageName>,
}

/// The languages and roots that an executor reports to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecutorTools {
    /// Sorted by root and name, each pair once.
    languages: Vec<OfferedLanguage>,
    /// Sorted by name, each once.
    roots: Vec<OfferedRoot>,
}

/// A language that an executor has in one of its roots.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OfferedLanguage {
    /// `None` is the executor's default root.
    pub root: Option<RootName>,
    pub name: LanguageName,
    /// `None` while the executor has not found it out, or if the language has no version.
    pub version: Option<String>,
}

/// A named root file system that an executor has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OfferedRoot {
    pub name: RootName,
    /// Identifies the content. `None` for a folder that the operator maintains.
    pub sha256: Option<BlobHash>,
}

/// What a refused task may set instead, in the words of the API.
pub const WAIT_ADVICE: &str = "set wait_for_executor to true to wait for one";

impl ToolRequirement {
    pub fn of(spec: &TaskSpec) -> ToolRequirement {
        let program = spec.judging.as_ref().and_then(|judging| judging.check.program());
        let judge = program.map(|program| JudgeTools {
            root: program.root.clone(),
            language: program.language.clone(),
        });
        let needs_more = |judge: &JudgeTools| {
            let is_nothing = judge.root.is_none() && judge.language.is_none();
            !is_nothing && (&judge.root, &judge.language) != (&spec.root, &spec.language)
        };
        ToolRequirement {
            root: spec.root.clone(),
            language: spec.language.clone(),
            judge: judge.filter(needs_more),
        }
    }

    /// Whether any executor may run the task.
    pub fn is_none(&self) -> bool {
        self.root.is_none() && self.language.is_none() && self.judge.is_none()
    }

    /// What the steps of the task require, without the program that judges.
    pub fn of_steps(&self) -> ToolRequirement {
        ToolRequirement {
            judge: None,
            ..self.clone()
        }
    }

    /// What the program that judges requires, as if it were a task. None at all if it needs no more than the task.
    pub fn of_judge(&self) -> ToolRequirement {
        let judge = self.judge.as_ref();
        ToolRequirement {
            root: judge.and_then(|judge| judge.root.clone()),
            language: judge.and_then(|judge| judge.language.clone()),
            judge: None,
        }
    }

    /// The requirement as one text, under which stores queue the task: `ROOT/LANGUAGE`, either of which may be empty, or
    /// `+ROOT/LANGUAGE ROOT/LANGUAGE` with that of the program that judges. `None` if any executor may run the task.
    pub fn queue_key(&self) -> Option<String> {
        (!self.is_none()).then(|| self.to_string())
    }

    /// For people.
    fn describe(&self) -> String {
        match (&self.language, &self.root) {
            (Some(language), None) => format!("the language {language}"),
            (Some(language), Some(root)) => format!("the language {language} in the root {root}"),
            (None, Some(root)) => format!("the root {root}"),
            (None, None) => "what the task needs".to_string(),
        }
    }

    /// The requirement in words, for sentences about what executors have.
    pub fn in_words(&self) -> String {
        match self.judge {
            Some(_) if self.of_steps().is_none() => self.of_judge().in_words_of_judge(),
            Some(_) => format!("{} and {}", self.describe(), self.of_judge().in_words_of_judge()),
            None => self.describe(),
        }
    }

    fn in_words_of_judge(&self) -> String {
        format!("{} for the program that judges", self.describe())
    }

    /// The error of an add for which no executor has the tools. If it is about the program that judges, the field is one of
    /// that program, and some executors have what the task needs and others what the program needs.
    pub fn refusal(&self, offered: &[ToolRequirement]) -> InvalidField {
        let list = |names: Vec<&str>| match names.is_empty() {
            true => "none".to_string(),
            false => names.join(", "),
        };
        let wait = format!("or {WAIT_ADVICE}");
        if self.judge.is_some() {
            let problem = format!(
                "no executor has both {} for the task and {} for this program; choose another language or root, {wait}",
                self.of_steps().describe(),
                self.of_judge().describe()
            );
            return InvalidField::new("language", problem);
        }
        let roots = || offered.iter().filter_map(|offer| offer.root.as_ref());
        match (&self.root, &self.language) {
            (Some(root), language) if language.is_none() || !roots().any(|offered| offered == root) => {
                let mut names: Vec<_> = roots().map(RootName::as_str).collect();
                names.dedup();
                let problem = format!(
                    "no executor has the root '{root}'; choose one of these: {}; {wait}",
                    list(names)
                );
                InvalidField::new("root", problem)
            }
            (root, language) => {
                let same_root = offered.iter().filter(|offer| offer.root == *root);
                let names = same_root.filter_map(|offer| Some(offer.language.as_ref()?.as_str()));
                let place = root
                    .as_ref()
                    .map_or(String::new(), |root| format!(" in the root '{root}'"));
                let language = language.as_ref().map_or("", LanguageName::as_str);
                let problem = format!(
                    "no executor has '{language}'{place}; choose one of these: {}; {wait}",
                    list(names.collect())
                );
                InvalidField::new("language", problem)
            }
        }
    }
}

impl fmt::Display for ToolRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let root = self.root.as_ref().map_or("", RootName::as_str);
        let language = self.language.as_ref().map_or("", LanguageName::as_str);
        match self.judge {
            Some(_) => write!(
                f,
                "{}{root}/{language} {}",
                queue_keys::JUDGED_PREFIX,
                self.of_judge()
            ),
            None => write!(f, "{root}/{language}"),
        }
    }
}

impl FromStr for ToolRequirement {
    type Err = NameError;

    /// Parses a queue key.
    fn from_str(key: &str) -> Result<ToolRequirement, NameError> {
        if let Some(both) = key.strip_prefix(queue_keys::JUDGED_PREFIX) {
            let (steps, judge) = both.split_once(' ').ok_or(NameError::Empty)?;
            let (steps, judge): (ToolRequirement, ToolRequirement) = (steps.parse()?, judge.parse()?);
            if judge.is_none() {
                return Err(NameError::Empty);
            }
            let judge = Some(JudgeTools {
                root: judge.root,
                language: judge.language,
            });
            return Ok(ToolRequirement { judge, ..steps });
        }
        let (root, language) = key.split_once('/').ok_or(NameError::Slash)?;
        let given = |name: &str| (!name.is_empty()).then(|| name.to_string());
        Ok(ToolRequirement {
            root: given(root).map(RootName::new).transpose()?,
            language: given(language).map(LanguageName::new).transpose()?,
            judge: None,
        })
    }
}

impl ExecutorTools {
    /// More languages and roots than these are left out, so that reports stay small.
    pub const MAX_LANGUAGES: usize = 2000;
    pub const MAX_ROOTS: usize = 200;
    /// A version with more bytes is unknown.
    pub const MAX_VERSION_BYTES: usize = 64;

    pub fn new(mut languages: Vec<OfferedLanguage>, mut roots: Vec<OfferedRoot>) -> ExecutorTools {
        languages.sort();
        languages.dedup_by(|second, first| first.root == second.root && first.name == second.name);
        languages.truncate(ExecutorTools::MAX_LANGUAGES);
        for offer in &mut languages {
            let is_short = |version: &String| version.len() <= ExecutorTools::MAX_VERSION_BYTES;
            offer.version = offer.version.take().filter(is_short);
        }
        roots.sort();
        roots.dedup_by(|second, first| first.name == second.name);
        roots.truncate(ExecutorTools::MAX_ROOTS);
        ExecutorTools { languages, roots }
    }

    pub fn languages(&self) -> &[OfferedLanguage] {
        &self.languages
    }

    pub fn roots(&self) -> &[OfferedRoot] {
        &self.roots
    }

    /// Whether an executor with these tools may run a task with this requirement.
    pub fn satisfy(&self, required: &ToolRequirement) -> bool {
        let judge = required.judge.as_ref();
        self.have(&required.root, &required.language)
            && judge.is_none_or(|judge| self.have(&judge.root, &judge.language))
    }

    fn have(&self, root: &Option<RootName>, language: &Option<LanguageName>) -> bool {
        match (language, root) {
            (Some(language), root) => {
                let same = |offer: &OfferedLanguage| offer.root == *root && offer.name == *language;
                self.languages.iter().any(same)
            }
            (None, Some(root)) => self.roots.iter().any(|offer| offer.name == *root),
            (None, None) => true,
        }
    }

    /// Every requirement without a program that judges that these tools satisfy, except none at all.
    pub fn satisfied(&self) -> impl Iterator<Item = ToolRequirement> {
        let roots = self.roots.iter().map(|offer| ToolRequirement {
            root: Some(offer.name.clone()),
            language: None,
            judge: None,
        });
        let languages = self.languages.iter().map(|offer| ToolRequirement {
            root: offer.root.clone(),
            language: Some(offer.name.clone()),
            judge: None,
        });
        roots.chain(languages)
    }

    /// The queue keys of the tasks that an executor with these tools may claim, besides tasks without a requirement.
    pub fn queue_keys(&self) -> QueueKeys {
        QueueKeys::new(self.satisfied().map(|required| required.to_string()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(name: &str) -> RootName {
        RootName::new(name).unwrap()
    }

    fn language(name: &str) -> LanguageName {
        LanguageName::new(name).unwrap()
    }

    fn tools(languages: &[(&str, &str)], roots: &[&str]) -> ExecutorTools {
        let offered = |(at, name): &(&str, &str)| OfferedLanguage {
            root: (!at.is_empty()).then(|| root(at)),
            name: language(name),
            version: None,
        };
        let offered_root = |name: &&str| OfferedRoot {
            name: root(name),
            sha256: None,
        };
        ExecutorTools::new(
            languages.iter().map(offered).collect(),
            roots.iter().map(offered_root).collect(),
        )
    }

    #[test]
    fn an_executor_satisfies_just_the_requirements_of_its_queue_keys() {
        let tools = tools(&[("", "c"), ("", "cpp"), ("lab", "r")], &["lab", "empty"]);
        let keys = ["/c", "/cpp", "empty/", "lab/", "lab/r"];
        assert_eq!(tools.queue_keys().of_steps(), keys);
        for key in keys {
            assert!(tools.satisfy(&key.parse().unwrap()), "{key}");
        }
        for key in ["/r", "lab/c", "empty/r", "other/", "/"] {
            let required: ToolRequirement = key.parse().unwrap();
            assert_eq!(tools.satisfy(&required), required.is_none(), "{key}");
            assert_eq!(required.to_string(), key);
        }
        assert_eq!(ToolRequirement::default().queue_key(), None);
    }

    #[test]
    fn the_program_that_judges_needs_tools_of_the_same_executor() {
        let tools = tools(&[("", "c"), ("", "cpp"), ("lab", "r")], &["lab"]);
        let check = |key: &str, expected: bool| {
            let required: ToolRequirement = key.parse().unwrap();
            assert_eq!(tools.satisfy(&required), expected, "{key}");
            assert_eq!(required.to_string(), key);
            assert!(!required.is_none());
        };
        check("+/c /cpp", true);
        check("+/ lab/r", true);
        check("+lab/ /c", true);
        check("+/c lab/cpp", false);
        check("+/go /c", false);
        for wrong in ["+/c", "+/c /", "+/c cpp", "/c /cpp", "+ /c", ""] {
            assert!(wrong.parse::<ToolRequirement>().is_err(), "{wrong}");
        }
        let both: ToolRequirement = "+/c lab/r".parse().unwrap();
        assert_eq!(both.of_steps().to_string(), "/c");
        assert_eq!(both.of_judge().to_string(), "lab/r");
        let words = "the language c and the language r in the root lab for the program that judges";
        assert_eq!(both.in_words(), words);
    }

    #[test]
    fn a_pair_is_offered_once() {
        let version = |version: Option<&str>| OfferedLanguage {
            root: None,
            name: language("c"),
            version: version.map(Into::into),
        };
        let tools = ExecutorTools::new(
            vec![version(Some("2")), version(None), version(Some("1"))],
            vec![],
        );
        assert_eq!(tools.languages(), [version(None)]);
    }

    #[test]
    fn an_executor_cannot_report_a_version_of_any_length() {
        let check = |length: usize, expected: bool| {
            let offer = OfferedLanguage {
                root: None,
                name: language("c"),
                version: Some("1".repeat(length)),
            };
            let tools = ExecutorTools::new(vec![offer], vec![]);
            assert_eq!(tools.languages()[0].version.is_some(), expected, "{length}");
        };
        check(64, true);
        check(65, false);
    }

    #[test]
    fn a_refusal_lists_what_there_is() {
        let offered: Vec<_> = tools(&[("", "c"), ("", "cpp"), ("lab", "r")], &["lab"])
            .satisfied()
            .collect();
        let check = |key: &str, field: &str, part: &str| {
            let required: ToolRequirement = key.parse().unwrap();
            let invalid = required.refusal(&offered);
            assert_eq!(invalid.field, field, "{key}");
            assert!(invalid.problem.contains(part), "{invalid}");
            assert!(invalid.problem.contains("wait_for_executor"));
        };
        check(
            "/go",
            "language",
            "no executor has 'go'; choose one of these: c, cpp; or",
        );
        check(
            "lab/go",
            "language",
            "'go' in the root 'lab'; choose one of these: r;",
        );
        check("web/", "root", "the root 'web'; choose one of these: lab;");
        check("web/c", "root", "the root 'web'");
        let nothing = "web/".parse::<ToolRequirement>().unwrap().refusal(&[]);
        assert!(
            nothing.problem.contains("choose one of these: none;"),
            "{nothing}"
        );
    }
}
