//! YAML files as trees whose nodes know their lines, so that every complaint names one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span};

use crate::error::PackageError;

/// A YAML file that was read.
#[derive(Debug)]
pub(crate) struct YamlFile {
    path: PathBuf,
    root: YamlNode,
}

/// A node of a YAML file: its value, and the line on which it begins, or that of its key.
#[derive(Clone, Debug)]
struct YamlNode {
    line: usize,
    value: YamlValue,
}

#[derive(Clone, Debug)]
enum YamlValue {
    Null,
    /// All scalars as they are written: whoever wants a number says so.
    Scalar(String),
    Sequence(Vec<YamlNode>),
    Mapping(Vec<(String, YamlNode)>),
}

/// A node of a YAML file, with the key under which it was found.
#[derive(Clone, Debug)]
pub(crate) struct YamlView<'a> {
    path: &'a Path,
    key: String,
    node: &'a YamlNode,
}

/// An alias repeats a whole tree, so a few lines could become any number of nodes.
const MAX_NODES: usize = 100_000;
const MAX_NESTING: usize = 32;

/// A sequence or a mapping of which the end is still to come.
struct OpenNode {
    anchor: usize,
    /// With the line on which it stands.
    key: Option<(usize, String)>,
    node: YamlNode,
}

/// Builds the tree of the first document from the events of the parser.
struct TreeBuilder {
    open: Vec<OpenNode>,
    anchors: BTreeMap<usize, YamlNode>,
    nodes: usize,
    root: Option<YamlNode>,
}

impl YamlFile {
    pub(crate) fn parse(path: &Path, text: &str) -> Result<YamlFile, PackageError> {
        let broken = |line: usize, problem: &str| PackageError::Yaml {
            path: path.to_path_buf(),
            line,
            problem: problem.into(),
        };
        let mut builder = TreeBuilder {
            open: vec![],
            anchors: BTreeMap::new(),
            nodes: 0,
            root: None,
        };
        // Many editors write a byte order mark, which the parser takes for a part of the first key.
        for event in Parser::new_from_str(text.trim_start_matches('\u{feff}')) {
            let (event, span) =
                event.map_err(|error: ScanError| broken(error.marker().line(), error.info()))?;
            builder
                .take(event, span)
                .map_err(|problem| broken(span.start.line(), &problem))?;
        }
        let root = builder.root.unwrap_or(YamlNode {
            line: 1,
            value: YamlValue::Null,
        });
        let path = path.to_path_buf();
        Ok(YamlFile { path, root })
    }

    /// The file as a mapping. An empty file is an empty mapping.
    pub(crate) fn view(&self) -> Result<YamlView<'_>, PackageError> {
        match self.root.value {
            YamlValue::Mapping(_) | YamlValue::Null => Ok(YamlView {
                path: &self.path,
                key: String::new(),
                node: &self.root,
            }),
            YamlValue::Scalar(_) | YamlValue::Sequence(_) => Err(PackageError::Yaml {
                path: self.path.clone(),
                line: self.root.line,
                problem: "a mapping (key: value) is expected".into(),
            }),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl TreeBuilder {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), String> {
        let line = span.start.line();
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(format!("more than {MAX_NODES} values"));
        }
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) if self.root.is_some() => Err("a second document".into()),
            Event::DocumentStart(_) => Ok(()),
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned();
                let node = node.ok_or("an alias of something that contains it")?;
                self.nodes += node.count();
                self.add(node)
            }
            Event::Scalar(text, style, anchor, _) => {
                let is_null =
                    style == ScalarStyle::Plain && matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
                let value = match is_null {
                    true => YamlValue::Null,
                    false => YamlValue::Scalar(text.into_owned()),
                };
                self.close(anchor, YamlNode { line, value })
            }
            Event::SequenceStart(anchor, _) => self.begin(anchor, line, YamlValue::Sequence(vec![])),
            Event::MappingStart(anchor, _) => self.begin(anchor, line, YamlValue::Mapping(vec![])),
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(OpenNode { anchor, node, .. }) => self.close(anchor, node),
                None => Err("an end without a beginning".into()),
            },
        }
    }

    fn begin(&mut self, anchor: usize, line: usize, value: YamlValue) -> Result<(), String> {
        if self.open.len() == MAX_NESTING {
            return Err(format!("nested more than {MAX_NESTING} deep"));
        }
        let node = YamlNode { line, value };
        self.open.push(OpenNode {
            anchor,
            key: None,
            node,
        });
        Ok(())
    }

    fn close(&mut self, anchor: usize, node: YamlNode) -> Result<(), String> {
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        self.add(node)
    }

    /// Adds a whole node to the one that is open.
    fn add(&mut self, node: YamlNode) -> Result<(), String> {
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match &mut open.node.value {
            YamlValue::Sequence(items) => items.push(node),
            YamlValue::Mapping(entries) => match open.key.take() {
                // The value of a key may begin on the next line.
                Some((line, key)) => entries.push((key, YamlNode { line, ..node })),
                None => {
                    let key = match node.value {
                        YamlValue::Scalar(text) => text,
                        YamlValue::Null => String::new(),
                        YamlValue::Sequence(_) | YamlValue::Mapping(_) => {
                            return Err("a key that is no plain text".into());
                        }
                    };
                    if entries.iter().any(|(other, _)| *other == key) {
                        return Err(format!("the key '{key}' twice"));
                    }
                    open.key = Some((node.line, key));
                }
            },
            YamlValue::Null | YamlValue::Scalar(_) => return Err("a value within a plain value".into()),
        }
        Ok(())
    }
}

impl YamlNode {
    fn count(&self) -> usize {
        1 + match &self.value {
            YamlValue::Null | YamlValue::Scalar(_) => 0,
            YamlValue::Sequence(items) => items.iter().map(YamlNode::count).sum(),
            YamlValue::Mapping(entries) => entries.iter().map(|(_, node)| node.count()).sum(),
        }
    }
}

impl<'a> YamlView<'a> {
    /// The value of a key. A key without a value counts as left out.
    pub(crate) fn get(&self, key: &str) -> Option<YamlView<'a>> {
        self.entries().into_iter().find_map(|(name, view)| {
            (name == key && !matches!(view.node.value, YamlValue::Null)).then_some(view)
        })
    }

    /// Keys and values of a mapping; none of anything else.
    pub(crate) fn entries(&self) -> Vec<(&'a str, YamlView<'a>)> {
        let YamlValue::Mapping(entries) = &self.node.value else {
            return vec![];
        };
        let view = |(name, node): &'a (String, YamlNode)| {
            let key = match self.key.is_empty() {
                true => name.clone(),
                false => format!("{}.{name}", self.key),
            };
            let path = self.path;
            (name.as_str(), YamlView { path, key, node })
        };
        entries.iter().map(view).collect()
    }

    pub(crate) fn is_mapping(&self) -> bool {
        matches!(self.node.value, YamlValue::Mapping(_))
    }

    /// The view itself if it is a mapping.
    pub(crate) fn mapping(self) -> Result<YamlView<'a>, PackageError> {
        match self.is_mapping() {
            true => Ok(self),
            false => Err(self.error("must be a mapping (key: value)")),
        }
    }

    pub(crate) fn text(&self) -> Result<&'a str, PackageError> {
        match &self.node.value {
            YamlValue::Scalar(text) => Ok(text),
            YamlValue::Null => Ok(""),
            YamlValue::Sequence(_) | YamlValue::Mapping(_) => Err(self.error("must be a single value")),
        }
    }

    /// The words of a text, or the items of a sequence of texts.
    pub(crate) fn words(&self) -> Result<Vec<String>, PackageError> {
        match &self.node.value {
            YamlValue::Sequence(_) => self.texts(),
            _ => Ok(self.text()?.split_whitespace().map(String::from).collect()),
        }
    }

    /// The items of a sequence of texts. A single text counts as a sequence of one.
    pub(crate) fn texts(&self) -> Result<Vec<String>, PackageError> {
        let YamlValue::Sequence(items) = &self.node.value else {
            return Ok(vec![self.text()?.to_string()]);
        };
        let text = |node: &'a YamlNode| {
            let view = YamlView { node, ..self.clone() };
            view.text().map(String::from)
        };
        items.iter().map(text).collect()
    }

    pub(crate) fn number(&self) -> Result<f64, PackageError> {
        let text = self.text()?;
        match text.trim().parse::<f64>() {
            Ok(number) if !number.is_nan() => Ok(number),
            _ => Err(self.error(format!("must be a number, not '{text}'"))),
        }
    }

    pub(crate) fn boolean(&self) -> Result<bool, PackageError> {
        match self.text()? {
            "true" | "True" | "TRUE" | "yes" => Ok(true),
            "false" | "False" | "FALSE" | "no" => Ok(false),
            other => Err(self.error(format!("must be true or false, not '{other}'"))),
        }
    }

    pub(crate) fn error(&self, problem: impl Into<String>) -> PackageError {
        PackageError::Setting {
            path: self.path.to_path_buf(),
            line: self.node.line,
            key: self.key.clone(),
            problem: problem.into(),
        }
    }

    /// What a warning about this value begins with.
    pub(crate) fn place(&self) -> String {
        format!("{}:{}: {}", self.path.display(), self.node.line, self.key)
    }

    /// A warning for each key that is not among the known ones: it may be a typing error.
    pub(crate) fn warn_of_unknown(&self, known: &[&str], warnings: &mut Vec<String>) {
        for (name, view) in self.entries() {
            if !known.contains(&name) {
                warnings.push(format!("{}: unknown key, ignored", view.place()));
            }
        }
    }
}

#[cfg(test)]
mod tests;
