use model::{
    ExecutorTools, InvalidField, Language, LanguageExample, LanguageLimits, OfferedLanguage, OfferedRoot,
    WorkspacePath,
};

use super::ids::{encode_hash, parse_hash, parse_language, parse_root};
use super::task::variables;
use super::{ParseMessage, parse_known, proto};

impl From<&ExecutorTools> for proto::ExecutorTools {
    fn from(tools: &ExecutorTools) -> Self {
        let language = |offer: &OfferedLanguage| proto::OfferedLanguage {
            name: offer.name.to_string(),
            root: offer.root.as_ref().map(ToString::to_string),
            version: offer.version.clone(),
        };
        let root = |offer: &OfferedRoot| proto::OfferedRoot {
            name: offer.name.to_string(),
            sha256: offer.sha256.map(encode_hash),
        };
        proto::ExecutorTools {
            languages: tools.languages().iter().map(language).collect(),
            roots: tools.roots().iter().map(root).collect(),
        }
    }
}

impl ParseMessage<ExecutorTools> for proto::ExecutorTools {
    fn parse(self) -> Result<ExecutorTools, InvalidField> {
        Ok(ExecutorTools::new(
            parse_known("tools.languages", self.languages),
            parse_known("tools.roots", self.roots),
        ))
    }
}

impl ParseMessage<OfferedLanguage> for proto::OfferedLanguage {
    fn parse(self) -> Result<OfferedLanguage, InvalidField> {
        Ok(OfferedLanguage {
            root: self.root.map(parse_root).transpose()?,
            name: parse_language(self.name)?,
            version: self.version,
        })
    }
}

impl ParseMessage<OfferedRoot> for proto::OfferedRoot {
    fn parse(self) -> Result<OfferedRoot, InvalidField> {
        let hash = |bytes: bytes::Bytes| parse_hash("sha256", &bytes);
        Ok(OfferedRoot {
            name: parse_root(self.name)?,
            sha256: self.sha256.map(hash).transpose()?,
        })
    }
}

impl From<Language> for proto::Language {
    fn from(language: Language) -> Self {
        proto::Language {
            name: language.name.to_string(),
            title: language.title,
            compiler: language.compiler,
            aliases: language.aliases.iter().map(ToString::to_string).collect(),
            extensions: language.extensions,
            source_name: language.source_name.to_string(),
            compile: language.compile,
            execute: language.execute,
            programs: language.programs,
            version: language.version,
            root: language.root.map(|root| root.to_string()),
            env: variables(language.env),
            has_class_name: language.has_class_name,
            time_factor: language.limits.time_factor,
            memory_factor: language.limits.memory_factor,
            compile_limits: Some(language.limits.compile.into()),
            execute_limits: Some(language.limits.execute.into()),
            example: language.example.source,
            example_output: language.example.output,
        }
    }
}

impl ParseMessage<Language> for proto::Language {
    fn parse(self) -> Result<Language, InvalidField> {
        let source_name = WorkspacePath::new(self.source_name)
            .map_err(|error| InvalidField::new("source_name", error.to_string()))?;
        Ok(Language {
            name: parse_language(self.name)?,
            title: self.title,
            compiler: self.compiler,
            aliases: self
                .aliases
                .into_iter()
                .map(parse_language)
                .collect::<Result<_, _>>()?,
            extensions: self.extensions,
            source_name,
            compile: self.compile,
            execute: self.execute,
            programs: self.programs,
            version: self.version,
            root: self.root.map(parse_root).transpose()?,
            env: self.env.into_iter().map(proto::Variable::pair).collect(),
            has_class_name: self.has_class_name,
            limits: LanguageLimits {
                time_factor: self.time_factor,
                memory_factor: self.memory_factor,
                compile: self.compile_limits.unwrap_or_default().into(),
                execute: self.execute_limits.unwrap_or_default().into(),
            },
            example: LanguageExample {
                source: self.example,
                output: self.example_output,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::{BlobHash, LanguageName, Limits, RootName};

    use super::*;

    #[test]
    fn tools_are_unchanged_by_encoding_and_parsing() {
        let root = |name: &str| RootName::new(name).unwrap();
        let language = |name: &str| LanguageName::new(name).unwrap();
        let tools = ExecutorTools::new(
            vec![
                OfferedLanguage {
                    root: Some(root("lab")),
                    name: language("r"),
                    version: Some("4.2".into()),
                },
                OfferedLanguage {
                    root: None,
                    name: language("c++"),
                    version: None,
                },
            ],
            vec![OfferedRoot {
                name: root("lab"),
                sha256: Some(BlobHash([3; 32])),
            }],
        );
        assert_eq!(proto::ExecutorTools::from(&tools).parse(), Ok(tools));
    }

    #[test]
    fn a_language_is_unchanged_by_encoding_and_parsing() {
        let limits = |seconds| Limits {
            wall: Some(Duration::from_secs(seconds)),
            ..Limits::default()
        };
        let language = Language {
            name: LanguageName::new("java").unwrap(),
            title: "Java".into(),
            compiler: "javac".into(),
            aliases: vec![LanguageName::new("jdk").unwrap()],
            extensions: vec!["java".into()],
            source_name: WorkspacePath::new("Main.java").unwrap(),
            compile: Some("javac {sources}".into()),
            execute: "java {class}".into(),
            programs: vec!["javac".into(), "java".into()],
            version: Some("javac -version".into()),
            root: Some(RootName::new("jdk").unwrap()),
            env: [("A".to_string(), "b".to_string())].into(),
            has_class_name: true,
            limits: LanguageLimits {
                time_factor: 2.0,
                memory_factor: 1.5,
                compile: limits(1),
                execute: limits(2),
            },
            example: LanguageExample {
                source: "class A {}".into(),
                output: "hello".into(),
            },
        };
        assert_eq!(proto::Language::from(language.clone()).parse(), Ok(language));
    }
}
