//! How the output of a case is checked, in JSON: `{"kind": "tokens", ...}`.

use std::collections::BTreeMap;
use std::fmt;

use model::{Content, JudgeProtocol, LanguageName, RootName, StepCommand, TokenCheck, Tolerance};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::parse::field_error;
use crate::{CompileStep, FilesOrZip, JudgeProgram, Limits, command, content, item_limits, serde_text};

/// How the output of a case is checked. A program that talks with the judged one while it runs is not part of it: it is in a
/// field of its own, `interact`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    None,
    Exact,
    Lines,
    Tokens(TokenCheck),
    Program(Box<JudgeProgram>),
}

/// The names of the kinds of checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckKind {
    None,
    Exact,
    Lines,
    Tokens,
    Program,
}

impl CheckKind {
    const ALL: [(&str, CheckKind); 5] = [
        ("none", CheckKind::None),
        ("exact", CheckKind::Exact),
        ("lines", CheckKind::Lines),
        ("tokens", CheckKind::Tokens),
        ("program", CheckKind::Program),
    ];
}

impl<'de> Deserialize<'de> for CheckKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CheckKind, D::Error> {
        serde_text::deserialize_text(deserializer, "the kind of a check as text", |text| {
            serde_text::find_known("kind of check", CheckKind::ALL, text)
        })
    }
}

/// The fields of all kinds of checks. Those of other kinds than its own are refused.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckFields {
    kind: CheckKind,
    #[serde(default, deserialize_with = "present")]
    case_sensitive: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    space_sensitive: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    float_tolerance: Option<ToleranceNumber>,
    #[serde(default, deserialize_with = "present")]
    float_absolute_tolerance: Option<ToleranceNumber>,
    #[serde(default, deserialize_with = "present")]
    float_relative_tolerance: Option<ToleranceNumber>,
    #[serde(default, deserialize_with = "present")]
    protocol: Option<ProtocolText>,
    #[serde(with = "serde_text::optional::language", default)]
    language: Option<LanguageName>,
    #[serde(with = "serde_text::optional::root", default)]
    root: Option<RootName>,
    #[serde(with = "content::optional", default)]
    source_code: Option<Content>,
    #[serde(default, deserialize_with = "present")]
    source: Option<FilesOrZip>,
    #[serde(default)]
    compile: Option<CompileStep>,
    #[serde(default, deserialize_with = "present")]
    command: Option<CommandValue>,
    #[serde(default, deserialize_with = "present")]
    args: Option<ArgsValue>,
    #[serde(default, deserialize_with = "present")]
    env: Option<EnvValue>,
    #[serde(default, deserialize_with = "present")]
    limits: Option<Limits>,
}

/// A tolerance for numbers in JSON.
struct ToleranceNumber(Tolerance);

/// The protocol of a checker in JSON.
#[derive(serde::Deserialize)]
struct ProtocolText(#[serde(with = "serde_text::protocol")] JudgeProtocol);

/// The command of a checker in JSON.
#[derive(serde::Deserialize)]
struct CommandValue(#[serde(with = "command")] StepCommand);

/// The arguments of a checker in JSON.
#[derive(serde::Deserialize)]
struct ArgsValue(#[serde(deserialize_with = "item_limits::words")] Vec<String>);

/// The variables of a checker in JSON.
#[derive(serde::Deserialize)]
struct EnvValue(#[serde(deserialize_with = "item_limits::variables")] BTreeMap<String, String>);

impl<'de> Deserialize<'de> for ToleranceNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ToleranceNumber, D::Error> {
        let number = f64::deserialize(deserializer)?;
        Tolerance::new(number)
            .map(ToleranceNumber)
            .ok_or_else(|| D::Error::custom("must not be negative"))
    }
}

/// A value that may be left out, but is not null.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl CheckFields {
    fn into_check<E: Error>(self) -> Result<Check, E> {
        if self.kind != CheckKind::Tokens
            && let Some(name) = self.token_field()
        {
            return Err(field_error(name, "is for a check of kind 'tokens'; leave it out"));
        }
        if self.kind != CheckKind::Program
            && let Some(name) = self.program_field()
        {
            return Err(field_error(
                name,
                "is for a check of kind 'program'; leave it out",
            ));
        }
        match self.kind {
            CheckKind::None => Ok(Check::None),
            CheckKind::Exact => Ok(Check::Exact),
            CheckKind::Lines => Ok(Check::Lines),
            CheckKind::Tokens => Ok(Check::Tokens(self.tokens())),
            CheckKind::Program => self.program().map(Box::new).map(Check::Program),
        }
    }

    /// A field that was given and that only comparisons of tokens have.
    fn token_field(&self) -> Option<&'static str> {
        let given = [
            ("case_sensitive", self.case_sensitive.is_some()),
            ("space_sensitive", self.space_sensitive.is_some()),
            ("float_tolerance", self.float_tolerance.is_some()),
            (
                "float_absolute_tolerance",
                self.float_absolute_tolerance.is_some(),
            ),
            (
                "float_relative_tolerance",
                self.float_relative_tolerance.is_some(),
            ),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }

    /// A field that was given and that only programs have.
    fn program_field(&self) -> Option<&'static str> {
        let given = [
            ("protocol", self.protocol.is_some()),
            ("language", self.language.is_some()),
            ("root", self.root.is_some()),
            ("source_code", self.source_code.is_some()),
            ("source", self.source.is_some()),
            ("compile", self.compile.is_some()),
            ("command", self.command.is_some()),
            ("args", self.args.is_some()),
            ("env", self.env.is_some()),
            ("limits", self.limits.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }

    fn tokens(&self) -> TokenCheck {
        let tolerance = |own: &Option<ToleranceNumber>| {
            let number = own.as_ref().or(self.float_tolerance.as_ref());
            number.map(|ToleranceNumber(tolerance)| *tolerance)
        };
        TokenCheck {
            case_sensitive: self.case_sensitive.unwrap_or(false),
            space_sensitive: self.space_sensitive.unwrap_or(false),
            absolute_tolerance: tolerance(&self.float_absolute_tolerance),
            relative_tolerance: tolerance(&self.float_relative_tolerance),
        }
    }

    fn program<E: Error>(self) -> Result<JudgeProgram, E> {
        let ProtocolText(protocol) = self.protocol.ok_or_else(|| E::missing_field("protocol"))?;
        Ok(JudgeProgram {
            protocol,
            language: self.language,
            root: self.root,
            source_code: self.source_code,
            source: self.source.unwrap_or_default(),
            compile: self.compile,
            command: self
                .command
                .map_or_else(StepCommand::of_language, |CommandValue(command)| command),
            args: self.args.map_or_else(Vec::new, |ArgsValue(args)| args),
            env: self.env.map_or_else(BTreeMap::new, |EnvValue(env)| env),
            limits: self.limits.unwrap_or_default(),
        })
    }
}

impl<'de> Deserialize<'de> for Check {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Check, D::Error> {
        /// A serde visitor that parses a check from a JSON object and refuses everything else.
        struct CheckVisitor;

        impl<'de> Visitor<'de> for CheckVisitor {
            type Value = Check;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a check like {\"kind\": \"tokens\"}")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Check, A::Error> {
                CheckFields::deserialize(MapAccessDeserializer::new(map))?.into_check()
            }
        }

        deserializer.deserialize_map(CheckVisitor)
    }
}

/// A program as a check: its kind and its own fields in one JSON object.
#[derive(serde::Serialize)]
struct ProgramCheck<'a> {
    kind: &'static str,
    #[serde(flatten)]
    program: &'a JudgeProgram,
}

impl Serialize for Check {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let kind = match self {
            Check::None => "none",
            Check::Exact => "exact",
            Check::Lines => "lines",
            Check::Tokens(check) => return serialize_tokens(*check, serializer),
            Check::Program(program) => {
                return ProgramCheck {
                    kind: "program",
                    program,
                }
                .serialize(serializer);
            }
        };
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("kind", kind)?;
        map.end()
    }
}

fn serialize_tokens<S: Serializer>(check: TokenCheck, serializer: S) -> Result<S::Ok, S::Error> {
    let TokenCheck {
        case_sensitive,
        space_sensitive,
        absolute_tolerance,
        relative_tolerance,
    } = check;
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("kind", "tokens")?;
    map.serialize_entry("case_sensitive", &case_sensitive)?;
    map.serialize_entry("space_sensitive", &space_sensitive)?;
    if let Some(tolerance) = absolute_tolerance {
        map.serialize_entry("float_absolute_tolerance", &tolerance.as_f64())?;
    }
    if let Some(tolerance) = relative_tolerance {
        map.serialize_entry("float_relative_tolerance", &tolerance.as_f64())?;
    }
    map.end()
}

impl Check {
    /// The JSON of a check of the model: an interactor is in a field of its own.
    pub fn of_model(check: model::Check) -> (Check, Option<JudgeProgram>) {
        match check {
            model::Check::None => (Check::None, None),
            model::Check::Exact => (Check::Exact, None),
            model::Check::Lines => (Check::Lines, None),
            model::Check::Tokens(check) => (Check::Tokens(check), None),
            model::Check::Program(program) => (Check::Program(Box::new(program.into())), None),
            model::Check::Interactive(program) => (Check::None, Some(program.into())),
        }
    }

    /// Leaves out what a program does. Which comparison is made is no secret.
    pub(crate) fn hide(&mut self) {
        match self {
            Check::Program(program) => program.hide(),
            Check::None | Check::Exact | Check::Lines | Check::Tokens(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
