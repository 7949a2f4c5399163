//! The encoded form of the languages and roots that an executor has.

use model::{BlobHash, ExecutorTools, LanguageName, OfferedLanguage, OfferedRoot, RootName};
use serde::{Deserialize, Serialize};

/// Version 1 of the encoded form in which both stores write an `ExecutorTools`.
#[derive(Serialize, Deserialize)]
pub(super) struct ToolsDocument<'a> {
    #[serde(borrow)]
    languages: Vec<OfferedLanguageDocument<'a>>,
    roots: Vec<OfferedRootDocument<'a>>,
}

/// The encoded form of a language in the tools of an executor.
#[derive(Serialize, Deserialize)]
struct OfferedLanguageDocument<'a> {
    root: Option<&'a str>,
    name: &'a str,
    version: Option<&'a str>,
}

/// The encoded form of a root in the tools of an executor.
#[derive(Serialize, Deserialize)]
struct OfferedRootDocument<'a> {
    name: &'a str,
    sha256: Option<[u8; 32]>,
}

impl<'a> From<&'a ExecutorTools> for ToolsDocument<'a> {
    fn from(tools: &'a ExecutorTools) -> ToolsDocument<'a> {
        let language = |offer: &'a OfferedLanguage| OfferedLanguageDocument {
            root: offer.root.as_ref().map(RootName::as_str),
            name: offer.name.as_str(),
            version: offer.version.as_deref(),
        };
        let root = |offer: &'a OfferedRoot| OfferedRootDocument {
            name: offer.name.as_str(),
            sha256: offer.sha256.map(|hash| hash.0),
        };
        ToolsDocument {
            languages: tools.languages().iter().map(language).collect(),
            roots: tools.roots().iter().map(root).collect(),
        }
    }
}

impl TryFrom<ToolsDocument<'_>> for ExecutorTools {
    type Error = postcard::Error;

    fn try_from(document: ToolsDocument<'_>) -> Result<ExecutorTools, postcard::Error> {
        let root_name = |name: &str| RootName::new(name).map_err(|_| postcard::Error::SerdeDeCustom);
        let languages = document.languages.into_iter().map(|offer| {
            Ok(OfferedLanguage {
                root: offer.root.map(root_name).transpose()?,
                name: LanguageName::new(offer.name).map_err(|_| postcard::Error::SerdeDeCustom)?,
                version: offer.version.map(String::from),
            })
        });
        let roots = document.roots.into_iter().map(|offer| {
            Ok(OfferedRoot {
                name: root_name(offer.name)?,
                sha256: offer.sha256.map(BlobHash),
            })
        });
        let languages = languages.collect::<Result<_, postcard::Error>>()?;
        Ok(ExecutorTools::new(
            languages,
            roots.collect::<Result<_, postcard::Error>>()?,
        ))
    }
}
