use std::collections::HashMap;
use std::sync::Arc;

use thiserror::Error;

use super::{Language, LanguageName, SourceClasses};
use crate::{AddTask, BlobHash, InvalidField};

/// All languages that a judicator knows, found by name, alias or extension.
#[derive(Clone, Debug, Default)]
pub struct LanguageTable {
    rows: Arc<[Language]>,
    /// The index of the row of each name and alias.
    by_name: Arc<HashMap<LanguageName, usize>>,
}

/// Why rows are not a language table.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum LanguageTableError {
    #[error("'{name}' is a name or alias of both '{first}' and '{second}'; remove one")]
    NameTwice {
        name: LanguageName,
        first: LanguageName,
        second: LanguageName,
    },
}

impl LanguageTable {
    pub fn new(rows: Vec<Language>) -> Result<LanguageTable, LanguageTableError> {
        let mut by_name = HashMap::new();
        for (index, row) in rows.iter().enumerate() {
            for name in std::iter::once(&row.name).chain(&row.aliases) {
                if let Some(first) = by_name.insert(name.clone(), index) {
                    return Err(LanguageTableError::NameTwice {
                        name: name.clone(),
                        first: rows[first].name.clone(),
                        second: row.name.clone(),
                    });
                }
            }
        }
        Ok(LanguageTable {
            rows: rows.into(),
            by_name: Arc::new(by_name),
        })
    }

    pub fn rows(&self) -> &[Language] {
        &self.rows
    }

    /// The language with this name or alias.
    pub fn get(&self, name: &LanguageName) -> Option<&Language> {
        self.rows.get(*self.by_name.get(name)?)
    }

    /// The blobs whose class decides what [`LanguageTable::fill_in`] does.
    pub fn blobs_to_read(&self, add: &AddTask) -> Vec<BlobHash> {
        let language = add.spec.language.as_ref().and_then(|name| self.get(name));
        language.map_or(vec![], |language| language.blobs_to_read(add))
    }

    /// Fills in what the request leaves to its language, and returns the language if it names one.
    pub fn fill_in(
        &self,
        add: &mut AddTask,
        classes: &SourceClasses,
    ) -> Result<Option<&Language>, InvalidField> {
        let Some(name) = &add.spec.language else {
            return match add.names_source_code {
                true => Err(InvalidField::new(
                    AddTask::SOURCE_CODE,
                    "needs a language, which names the file; give language, or source with the file's name",
                )),
                false => Ok(None),
            };
        };
        let Some(language) = self.get(name) else {
            let known: Vec<_> = self.rows.iter().map(|row| row.name.as_str()).collect();
            let problem = format!("'{name}' is unknown; choose one of these: {}", known.join(", "));
            return Err(InvalidField::new("language", problem));
        };
        language.fill_in(add, classes)?;
        Ok(Some(language))
    }
}
