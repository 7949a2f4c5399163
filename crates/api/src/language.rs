//! Languages and roots in JSON.

use std::collections::BTreeMap;

use model::{BlobHash, Health, LanguageName, RootName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{ExecutorState, schema, serde_text};

/// The language table, with the executors that have each language.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Languages)]
pub struct LanguagesResponse {
    pub languages: Vec<Language>,
}

/// A language that a task may name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Language {
    #[serde(with = "serde_text::language")]
    #[schema(value_type = String, example = "cpp")]
    pub name: LanguageName,
    /// For people, with the newest version that an executor has.
    #[schema(example = "C++ 17 (g++ 12.2)")]
    pub title: String,
    #[serde(with = "names")]
    #[schema(value_type = Vec<String>, example = json!(["c++", "cc"]))]
    pub aliases: Vec<LanguageName>,
    /// How many executors have each version.
    #[schema(example = json!({"12.2.0": 2}))]
    pub versions: BTreeMap<String, u32>,
    /// Extensions of source files, without the dot.
    #[schema(example = json!(["cpp", "cc"]))]
    pub extensions: Vec<String>,
    /// The name under which `source_code` is stored.
    #[schema(example = "main.cpp")]
    pub source_name: String,
    /// The compile command with its placeholders. Null for a language without a compile step.
    pub compile: Option<String>,
    /// The execute command with its placeholders.
    pub execute: String,
    /// The root that tasks of the language use if they name none.
    #[serde(with = "serde_text::optional::root")]
    #[schema(value_type = Option<String>)]
    pub root: Option<RootName>,
    /// How many executors have the language now, in that root.
    pub executors: u32,
    /// A program that reads one line and prints a greeting.
    pub example: String,
    /// What the example prints if its input is `Conclave`.
    pub example_output: String,
}

/// The named root file systems of the executors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Roots)]
pub struct RootsResponse {
    pub roots: Vec<Root>,
}

/// A root file system that a task may name. Executors with different contents under one name are separate entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Root {
    #[serde(with = "serde_text::root")]
    #[schema(value_type = String, example = "contest")]
    pub name: RootName,
    /// Identifies the content. Null for a folder that the operator maintains.
    #[serde(with = "serde_text::optional::blob")]
    #[schema(value_type = Option<schema::Sha256>)]
    pub sha256: Option<BlobHash>,
    /// How many executors have it now.
    pub executors: u32,
}

impl LanguagesResponse {
    pub fn new(table: Vec<model::Language>, executors: &[model::ExecutorState]) -> LanguagesResponse {
        let language = |row| Language::new(row, executors);
        LanguagesResponse {
            languages: table.into_iter().map(language).collect(),
        }
    }
}

impl Language {
    fn new(row: model::Language, executors: &[model::ExecutorState]) -> Language {
        let mut versions: BTreeMap<String, u32> = BTreeMap::new();
        let mut count = 0;
        for executor in executors
            .iter()
            .filter(|executor| executor.health == Health::Alive)
        {
            let mut offers = executor.tools.languages().iter();
            if let Some(offer) = offers.find(|offer| offer.name == row.name && offer.root == row.root) {
                count += 1;
                if let Some(version) = &offer.version {
                    *versions.entry(version.clone()).or_default() += 1;
                }
            }
        }
        let newest = versions.keys().max_by_key(|version| version_order(version));
        Language {
            title: row.title_with_version(newest.map(String::as_str)),
            name: row.name,
            aliases: row.aliases,
            versions,
            extensions: row.extensions,
            source_name: row.source_name.to_string(),
            compile: row.compile,
            execute: row.execute,
            root: row.root,
            executors: count,
            example: row.example.source,
            example_output: row.example.output,
        }
    }

    /// The names of the executors with each version: `12.2.0: a, b; 13.1.0: c`. Empty if no executor has the language.
    pub fn versions_by_executor(&self, executors: &[ExecutorState]) -> String {
        let mut by_version: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for executor in executors.iter().filter(|executor| executor.health == "alive") {
            let mut offers = executor.languages.iter();
            if let Some(offer) = offers.find(|offer| offer.name == self.name && offer.root == self.root) {
                let version = offer.version.as_deref().unwrap_or("unknown");
                by_version
                    .entry(version)
                    .or_default()
                    .push(executor.name.as_str());
            }
        }
        let versions = by_version
            .iter()
            .map(|(version, names)| format!("{version}: {}", names.join(", ")));
        versions.collect::<Vec<_>>().join("; ")
    }
}

impl RootsResponse {
    pub fn new(executors: &[model::ExecutorState]) -> RootsResponse {
        let mut counts: BTreeMap<(RootName, Option<BlobHash>), u32> = BTreeMap::new();
        let alive = executors
            .iter()
            .filter(|executor| executor.health == Health::Alive);
        for offer in alive.flat_map(|executor| executor.tools.roots()) {
            *counts.entry((offer.name.clone(), offer.sha256)).or_default() += 1;
        }
        let root = |((name, sha256), executors)| Root {
            name,
            sha256,
            executors,
        };
        RootsResponse {
            roots: counts.into_iter().map(root).collect(),
        }
    }
}

/// The numbers of a version, so that 10.1 is newer than 9.4.
fn version_order(version: &str) -> Vec<u64> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

/// A list of names as text.
mod names {
    use model::LanguageName;
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    pub(super) fn serialize<S: Serializer>(names: &[LanguageName], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(names.iter().map(LanguageName::as_str))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<LanguageName>, D::Error> {
        let names = Vec::<String>::deserialize(deserializer)?;
        let parse = |name: String| LanguageName::new(name).map_err(D::Error::custom);
        names.into_iter().map(parse).collect()
    }
}
