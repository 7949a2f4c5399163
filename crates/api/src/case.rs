//! The cases of a judged task in JSON: a list, or a folder of inputs and answers.

use std::fmt;

use model::{CaseName, Content, Points};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

use crate::item_limits::{self, CountedItem};
use crate::object::impl_json_objects;
use crate::{FilesOrZip, Limits, content, points, schema, serde_text};

/// One test of a judged program: what it reads, and what it should write. In a response, what the caller may not see is left
/// out: the contents of a problem's cases are for its owner, except for samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct Case {
    /// Different from the names of all other cases.
    #[serde(with = "serde_text::case_name")]
    #[schema(value_type = schema::CaseName)]
    pub name: CaseName,
    /// Standard input of the execute step.
    #[serde(with = "content::optional", default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Content>)]
    pub input: Option<Content>,
    /// What the output is compared with. The judged program never sees it.
    #[serde(with = "content::optional", default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Content>)]
    pub answer: Option<Content>,
    /// More arguments of the execute step, after its own.
    #[serde(
        default,
        deserialize_with = "item_limits::words",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schema(value_type = Vec<schema::Word>)]
    pub args: Vec<String>,
    /// Files that this case adds to the workspace of the compile step.
    #[serde(default, skip_serializing_if = "FilesOrZip::is_empty")]
    #[schema(value_type = schema::Files)]
    pub files: FilesOrZip,
    /// What the case is worth.
    #[serde(with = "points", default = "one_point")]
    #[schema(value_type = schema::Points, required = false)]
    pub points: Points,
    /// The group whose rule says how its points add up with those of others.
    #[serde(
        with = "serde_text::optional::case_name",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<schema::CaseName>)]
    pub group: Option<CaseName>,
    /// Limits of the execute step for this case alone. What is left out is as in the step.
    #[serde(default, skip_serializing_if = "Limits::is_default")]
    pub limits: Limits,
    /// Whether everybody may see what the case of a problem contains.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sample: bool,
}

impl_json_objects! {
    Case: "a case as a JSON object";
}

fn one_point() -> Points {
    Points::ONE
}

/// The field `cases`: a list of cases, or files from which the server makes cases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CasesOrFiles {
    Listed(Vec<Case>),
    /// Each `NAME.in` with `NAME.ans` or `NAME.out` is a case.
    Files(FilesOrZip),
}

impl<'de> Deserialize<'de> for CasesOrFiles {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CasesOrFiles, D::Error> {
        /// A serde visitor that parses the cases of a task from JSON: a list, or files by path.
        struct CasesVisitor;

        impl<'de> Visitor<'de> for CasesVisitor {
            type Value = CasesOrFiles;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of cases, or an object of files like {\"1.in\": ..., \"1.ans\": ...}")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<CasesOrFiles, A::Error> {
                item_limits::read_list(CountedItem::Cases, list).map(CasesOrFiles::Listed)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<CasesOrFiles, A::Error> {
                FilesOrZip::deserialize(MapAccessDeserializer::new(map)).map(CasesOrFiles::Files)
            }
        }

        deserializer.deserialize_any(CasesVisitor)
    }
}

impl Serialize for CasesOrFiles {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            CasesOrFiles::Listed(cases) => cases.serialize(serializer),
            CasesOrFiles::Files(files) => files.serialize(serializer),
        }
    }
}

impl Case {
    /// A case without anything but its name.
    pub fn new(name: CaseName) -> Case {
        Case {
            name,
            input: None,
            answer: None,
            args: Vec::new(),
            files: FilesOrZip::default(),
            points: Points::ONE,
            group: None,
            limits: Limits::default(),
            sample: false,
        }
    }

    /// Leaves out what only the owner of the case may see.
    pub(crate) fn hide(&mut self) {
        if !self.sample {
            self.input = None;
            self.answer = None;
            self.args.clear();
            self.files = FilesOrZip::default();
        }
    }
}

impl From<model::Case> for Case {
    fn from(case: model::Case) -> Case {
        let model::Case {
            name,
            input,
            answer,
            args,
            files,
            points,
            group,
            limits,
            is_sample,
        } = case;
        Case {
            name,
            input: Some(input),
            answer,
            args,
            files: files.into(),
            points,
            group,
            limits: limits.into(),
            sample: is_sample,
        }
    }
}

#[cfg(test)]
mod tests;
