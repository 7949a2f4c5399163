//! The OpenAPI schemas of what has more than one spelling, or whose words are the model's.
//! Each type here only stands for its schema.
//!
//! A value that fits its schema is not refused for its form. How large a task may be, the operator can set: the schemas
//! here have the defaults, and [`set_bounds`] puts in others. A schema cannot say everything: it counts the characters of
//! a word and not its bytes, and bounds on several fields together are told in words only.

use model::Bounds;
use utoipa::openapi::schema::{
    AdditionalProperties, AllOf, AllOfBuilder, AnyOfBuilder, ArrayBuilder, KnownFormat, ObjectBuilder,
    OneOfBuilder, Schema, SchemaFormat, Type,
};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

use crate::{size, span};

/// Declares a type that is nothing but its schema.
macro_rules! schemas {
    ($($name:ident = $schema:expr;)*) => {$(
        #[derive(Debug)]
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                RefOr::T($schema.into())
            }
        }

        impl ToSchema for $name {}
    )*};
}

schemas! {
    Id = text("A UUID in its hyphenated form.").format(Some(SchemaFormat::Custom("uuid".into())))
        .pattern(Some(UUID))
        .examples(["01890a5d-ac96-774b-bcce-b302099a8057"]);
    ChosenId = text(
        "A UUID of your choice in its hyphenated form: best of version 4 or 7, and not of version 5, which is the \
         form of the ids that follow from an `Idempotency-Key`.",
    )
        .format(Some(SchemaFormat::Custom("uuid".into())))
        .pattern(Some(UUID_BUT_5))
        .examples(["01890a5d-ac96-774b-bcce-b302099a8057"]);
    IdPrefix = text("How an id begins, in its hyphenated form.")
        .pattern(Some(
            "^([0-9A-Fa-f]{4,8}|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){0,2}-[0-9A-Fa-f]{0,4}\
             |[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{0,12})$",
        ))
        .examples(["01890a5d-ac"]);
    Time = text("RFC 3339 with microseconds, in UTC.")
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .examples(["2026-01-31T12:00:00.123456Z"]);
    Status = text("Where a task stands.")
        .enum_values(Some(model::Status::ALL.map(model::Status::as_str)));
    Reason = text("Why a step ended.")
        .enum_values(Some(model::Reason::ALL.map(model::Reason::as_str)));
    Order = text("Which tasks come first.").enum_values(Some(["newest", "oldest"]));
    User = text("A user's name, of up to 128 characters.")
        .min_length(Some(1)).max_length(Some(128))
        .pattern(Some(format!("^[^{CONTROL}]+$")))
        .examples(["alice"]);
    ExecutorName = text("An executor's name.").pattern(Some("^[A-Za-z0-9._-]{1,128}$"));
    Network = text("A network's name.").pattern(Some("^[a-z0-9._-]{1,64}$")).examples(["loopback"]);
    Sha256 = text("SHA-256 in hex, in small letters.").pattern(Some(SHA256))
        .examples(["2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"]);
    Cursor = text("The `next` of a page, as it is.")
        .pattern(Some("^-?[0-7]?[0-9a-f]{1,15}\\.[0-9a-f]{32}\\.[0-9a-f]{1,8}$"));
    Bytes = text("Any bytes.").format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary)));
    StreamEvent = ObjectBuilder::new()
        .description(Some(
            "One event of a stream of server-sent events. The data of `status` is an `Event`, that of `problem` a \
             `Problem`, each as JSON on one line.",
        ))
        .property("event", text("What the data is.").enum_values(Some(["status", "problem"])))
        .property("data", text("JSON.").content_media_type("application/json"))
        .required("event")
        .required("data");
    Wait = text("Seconds, or amounts with units: ns, us, ms, s, m, h, d.")
        .pattern(Some(span::pattern_with_zero()))
        .examples(["10", "1m30s"]);
    Duration = OneOfBuilder::new()
        .description(Some(
            "Seconds, or text with units: ns, us, ms, s, m, h, d. More than zero. Answers have seconds.",
        ))
        .item(
            ObjectBuilder::new().schema_type(Type::Number)
                .minimum(Some(1e-9)).maximum(Some(span::MAX.as_secs_f64()))
                .examples([2]),
        )
        .item(text("Amounts with units.").pattern(Some(span::pattern())).examples(["2s", "250ms", "1m30s"]));
    Size = amount(1, size::pattern(), ["1MiB", "64k"]);
    StackSize = amount(model::Limits::LEAST_STACK, size::stack_pattern(), ["8MiB", "64k"]);
    Command = command(&Bounds::default());
    Word = word(&Bounds::default());
    Environment = environment(&Bounds::default());
    Content = content(Executable::None, [Form::Text, Form::Base64, Form::Blob]);
    File = content(Executable::Optional, [Form::Text, Form::Base64, Form::Blob]);
    Files = files(&Bounds::default());
}

/// Puts the operator's bounds into the schemas of an API description, given by their names.
pub fn set_bounds(schemas: &mut serde_json::Value, bounds: &Bounds) {
    let bounded: [(&str, RefOr<Schema>); 4] = [
        ("Command", command(bounds).into()),
        ("Word", word(bounds).into()),
        ("Environment", environment(bounds).into()),
        ("Files", files(bounds).into()),
    ];
    for (name, schema) in bounded {
        schemas[name] = serde_json::to_value(schema).unwrap_or_default();
    }
    schemas["Execute"]["properties"]["args"]["maxItems"] = bounds.args.into();
}

fn command(bounds: &Bounds) -> OneOfBuilder {
    let anything = format!("[^{NUL}]*");
    let program = word(bounds).min_length(Some(1)).description(Some("The program."));
    OneOfBuilder::new()
        .description(Some(format!(
            "Text is run by the shell; a list is a program and its arguments, with no shell between. Up to {} bytes, of \
             a list all words together.",
            bounds.command_bytes
        )))
        .item(
            text("For the shell.")
                .max_length(Some(bounds.command_bytes))
                .pattern(Some(format!("^{anything}[^{SPACE}{NUL}]{anything}$")))
                .examples(["g++ -O2 -o main main.cpp"]),
        )
        .item(
            ArrayBuilder::new()
                .prefix_items([Schema::from(program)])
                .items(word(bounds))
                .min_items(Some(1))
                .max_items(Some(bounds.args))
                .examples([["./main", "--fast"]]),
        )
}

/// A word of a command line.
fn word(bounds: &Bounds) -> ObjectBuilder {
    let limit = bounds.command_bytes;
    text(&format!("A word of up to {limit} bytes, without NUL."))
        .max_length(Some(limit))
        .pattern(Some(format!("^[^{NUL}]*$")))
}

fn environment(bounds: &Bounds) -> ObjectBuilder {
    let limit = bounds.command_bytes;
    // A name and its value are counted together.
    let name = ENV_NAME_LENGTH.min(limit);
    let value = word(bounds).max_length(Some(limit - name));
    ObjectBuilder::new()
        .description(Some(format!(
            "Variables by their name, each with its value up to {limit} bytes."
        )))
        .property_names(Some(
            text("Not empty, without `=` and NUL.")
                .max_length(Some(name))
                .pattern(Some(format!("^[^={NUL}]+$"))),
        ))
        .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(Schema::from(value)))))
        .max_properties(Some(bounds.env))
        .examples([serde_json::json!({"LANG": "C.UTF-8"})])
}

fn files(bounds: &Bounds) -> OneOfBuilder {
    let listed = ObjectBuilder::new()
        .description(Some(format!(
            "Files by path, up to {} in `source` and `data` together.",
            bounds.files
        )))
        .property_names(Some(path()))
        .property("zip", zip_as_a_file())
        .additional_properties(Some(AdditionalProperties::RefOr(RefOr::Ref(
            Ref::from_schema_name("File"),
        ))))
        .max_properties(Some(bounds.files))
        .examples([serde_json::json!({
            "main.cpp": "int main() { return 0; }",
            "run.sh": {"text": "exec ./main\n", "executable": true},
            "logo.bin": {"base64": "//79"},
        })]);
    let content = OneOfBuilder::new()
        .item(form(Form::Base64, Executable::None))
        .item(form(Form::Blob, Executable::None));
    let zip = ObjectBuilder::new()
        .description(Some("A zip, unpacked when the task is added."))
        .property("zip", content)
        .required("zip")
        .additional_properties(Some(AdditionalProperties::FreeForm(false)));
    OneOfBuilder::new()
        .description(Some(
            "Files by their path relative to the workspace, or one zip that holds them.",
        ))
        .item(listed)
        .item(zip)
}

const UUID: &str = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$";
const UUID_BUT_5: &str =
    "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-46-9a-fA-F][0-9a-fA-F]{3}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$";
const SHA256: &str = "^[0-9a-f]{64}$";
const NUL: &str = "\\u0000";
const CONTROL: &str = "\\u0000-\\u001f\\u007f-\\u009f";
/// What Unicode calls white space. `\s` is other characters in JavaScript, in Python and in Rust.
const SPACE: &str =
    "\\u0009-\\u000d\\u0020\\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
/// In characters. The server takes longer names, as long as the value is as much shorter.
const ENV_NAME_LENGTH: usize = 255;
/// Standard base64 with padding, in which the bits that no byte uses are zero.
const BASE64: &str = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$";

fn text(description: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(description))
}

/// A number of bytes, or text with a unit.
fn amount(least: u64, pattern: String, examples: [&str; 2]) -> OneOfBuilder {
    let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    OneOfBuilder::new()
        .description(Some(
            "Bytes, or text with a unit: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB; a letter alone counts in 1024s. More \
             than zero. Answers have bytes.",
        ))
        .item(
            ObjectBuilder::new()
                .schema_type(Type::Integer)
                .minimum(Some(bytes(least)))
                .maximum(Some(bytes(size::MAX)))
                .examples([1 << 20]),
        )
        .item(
            text("An amount with a unit.")
                .pattern(Some(pattern))
                .examples(examples),
        )
}

/// A relative path: no root, no `.` or `..`, no empty part.
fn path() -> AllOf {
    let string = || ObjectBuilder::new().schema_type(Type::String);
    let parts = |part: String| Some(format!("^{part}(?:/{part})*$"));
    let shape = format!("(?:\\.{{0,2}}[^./{CONTROL}][^/{CONTROL}]*|\\.\\.\\.[^/{CONTROL}]*)");
    // The server counts bytes: a character has one of them in ASCII, else up to four.
    let ascii = string()
        .max_length(Some(PATH_BYTES))
        .pattern(parts(format!("[\\u0001-.0-\\u007f]{{1,{PATH_PART_BYTES}}}")));
    let other = string()
        .max_length(Some(PATH_BYTES / 4))
        .pattern(parts(format!("[^/]{{1,{}}}", PATH_PART_BYTES / 4)));
    // One pattern with all bounds would be too large for some readers of patterns.
    AllOfBuilder::new()
        .description(Some(
            "A path of up to 1019 bytes, relative to the workspace, of up to 31 parts of up to 255 bytes.",
        ))
        .item(string().pattern(parts(shape)))
        .item(string().pattern(Some("^[^/]*(?:/[^/]*){0,30}$")))
        .item(AnyOfBuilder::new().item(ascii).item(other))
        .build()
}

/// The model's, less the folder of `data`.
const PATH_BYTES: usize = 1019;
const PATH_PART_BYTES: usize = 255;

#[derive(Clone, Copy)]
enum Form {
    Text,
    Base64,
    Blob,
}

#[derive(Clone, Copy)]
enum Executable {
    /// There is no such field.
    None,
    Optional,
    Required,
}

/// An object that says in which form the content comes.
fn form(form: Form, executable: Executable) -> ObjectBuilder {
    let (name, value) = match form {
        Form::Text => ("text", text("The content itself.")),
        Form::Base64 => (
            "base64",
            text("Standard base64 with padding.").pattern(Some(BASE64)),
        ),
        Form::Blob => (
            "blob",
            text("SHA-256 in hex of a blob that was put before.").pattern(Some(SHA256)),
        ),
    };
    let object = ObjectBuilder::new()
        .property(name, value)
        .required(name)
        .additional_properties(Some(AdditionalProperties::FreeForm(false)));
    let flag = ObjectBuilder::new();
    match executable {
        Executable::None => object,
        Executable::Optional => object.property(
            "executable",
            flag.schema_type(utoipa::openapi::schema::SchemaType::from_iter([
                Type::Boolean,
                Type::Null,
            ])),
        ),
        Executable::Required => object
            .property("executable", flag.schema_type(Type::Boolean))
            .required("executable"),
    }
}

/// Text, or an object in one of these forms.
fn content(executable: Executable, forms: [Form; 3]) -> OneOfBuilder {
    let texts = OneOfBuilder::new()
        .description(Some(
            "Text as it is, or as text, base64 or the SHA-256 of a blob that was put before.",
        ))
        .item(text("The content itself."));
    forms
        .into_iter()
        .fold(texts, |all, one| all.item(form(one, executable)))
}

/// A file of the name `zip` says whether it is executable, unless it is given as text: else it would be all files.
fn zip_as_a_file() -> OneOfBuilder {
    OneOfBuilder::new()
        .item(text("The content itself."))
        .item(form(Form::Text, Executable::Optional))
        .item(form(Form::Base64, Executable::Required))
        .item(form(Form::Blob, Executable::Required))
}

#[cfg(test)]
mod tests {
    use regex::Regex;
    use serde_json::Value;

    use super::*;

    fn json<T: PartialSchema>() -> Value {
        serde_json::to_value(T::schema()).unwrap()
    }

    fn pattern(schema: &Value) -> Regex {
        Regex::new(schema["pattern"].as_str().unwrap()).unwrap()
    }

    /// What fits a pattern is taken by the server's parser, and what the parser refuses does not fit.
    fn check(pattern: &Regex, parse: impl Fn(&str) -> bool, fits: &[&str], fits_not: &[&str]) {
        for text in fits {
            assert!(pattern.is_match(text), "{text:?} should fit {pattern}");
            assert!(parse(text), "{text:?} is refused");
        }
        for text in fits_not {
            assert!(!pattern.is_match(text), "{text:?} should not fit {pattern}");
            assert!(!parse(text), "{text:?} is taken");
        }
    }

    /// Whether a text fits a schema of the few words that ours are made of.
    fn fits(schema: &Value, text: &str) -> bool {
        let length = text.chars().count() as u64;
        let all = |word: &str| schema[word].as_array();
        schema["pattern"]
            .as_str()
            .is_none_or(|_| pattern(schema).is_match(text))
            && schema["minLength"].as_u64().is_none_or(|least| length >= least)
            && schema["maxLength"].as_u64().is_none_or(|most| length <= most)
            && all("allOf").is_none_or(|all| all.iter().all(|schema| fits(schema, text)))
            && all("anyOf").is_none_or(|any| any.iter().any(|schema| fits(schema, text)))
    }

    /// The same as `check` for a whole schema.
    fn check_schema(schema: &Value, parse: impl Fn(&str) -> bool, taken: &[&str], refused: &[&str]) {
        for text in taken {
            assert!(fits(schema, text), "{text:?} should fit {schema}");
            assert!(parse(text), "{text:?} is refused");
        }
        for text in refused {
            assert!(!fits(schema, text), "{text:?} should not fit {schema}");
            assert!(!parse(text), "{text:?} is taken");
        }
    }

    #[test]
    fn durations_fit_their_pattern() {
        let of_text = |text: &str| text.parse::<crate::Span>();
        let positive = |text: &str| of_text(text).is_ok_and(|span| !span.0.is_zero());
        check(
            &pattern(&json::<Duration>()["oneOf"][1]),
            positive,
            &[
                "2",
                "2s",
                "250ms",
                "1m30s",
                "1.5h",
                "0.25s",
                ".5",
                "0.000000001",
                "0.001us",
                "1d2h3m4s5ms6us7ns",
                "9999d99999h9999999m999999999s",
                "1h0m0s",
                "999999999.999999999",
            ],
            &[
                "",
                "0",
                "0s",
                "-1s",
                "1x",
                "s",
                "1 fortnight",
                "1.2.3s",
                "inf",
                "nan",
                "1e3",
                "0.0ms",
                "99999999999d",
            ],
        );
        check(
            &pattern(&json::<Wait>()),
            |text| of_text(text).is_ok(),
            &["0", "0s", "10", "1m30s", "0.5"],
            &["", "-1", "soon", "1e3", "99999999999"],
        );
    }

    #[test]
    fn sizes_fit_their_pattern() {
        let at_least =
            |least: u64| move |text: &str| text.parse::<crate::Size>().is_ok_and(|size| size.0 >= least);
        check(
            &pattern(&json::<Size>()["oneOf"][1]),
            at_least(1),
            &[
                "1",
                "1b",
                "17B",
                "64k",
                "64K",
                "1MB",
                "1.5MiB",
                "0.001k",
                "256 MiB",
                "999999.999TiB",
                "3gib",
                "999999999999999999",
            ],
            &[
                "",
                "0",
                "0k",
                "-1",
                "1x",
                "k",
                "1.2.3k",
                "9999999999TiB",
                "1e3",
                "MiB",
            ],
        );
        check(
            &pattern(&json::<StackSize>()["oneOf"][1]),
            at_least(model::Limits::LEAST_STACK),
            &["64k", "64KiB", "100kB", "8MiB", "65536", "100000", "1G"],
            &["1", "4096", "65535", "63k", "1k", "64kB", "0", "8", "10 kB"],
        );
    }

    #[test]
    fn names_and_paths_fit_their_pattern() {
        // As a data file, which has the shorter bounds.
        let is_path = |path: &str| {
            let path = model::FilePath::new(path);
            path.is_ok_and(|path| path.beneath("data").is_ok())
        };
        let joined = |part: &str, count: usize| vec![part; count].join("/");
        let (part, wide) = ("x".repeat(255), "\u{1f600}".repeat(63));
        check_schema(
            &serde_json::to_value(Schema::from(path())).unwrap(),
            is_path,
            &[
                "a",
                ".a",
                "..a",
                "...",
                "a/b/c",
                "a b",
                "é/ü",
                "a/.../b",
                &part,
                &wide,
                &joined("a", 31),
                &joined(&"x".repeat(254), 4),
                &joined(&wide, 3),
            ],
            &[
                "",
                ".",
                "..",
                "/a",
                "a/",
                "a//b",
                "a/./b",
                "../a",
                "a/..",
                "a\nb",
                "a\u{7f}",
                "\0",
                &format!("{part}x"),
                &format!("{wide}\u{1f600}"),
                &joined("a", 32),
                &joined("a", 40),
                &joined(&part, 4),
                &joined(&wide, 5),
            ],
        );
        check_schema(
            &json::<User>(),
            |name| model::UserName::new(name).is_ok(),
            &[
                "a",
                "Ada Lovelace",
                "ü",
                &"ü".repeat(128),
                &"\u{1f600}".repeat(128),
            ],
            &["", "a\nb", "\u{85}", &"ü".repeat(129)],
        );
        let id = "01890a5d-ac96-774b-bcce-b302099a8057";
        let of = |text: &str| text.parse::<model::TaskId>().is_ok();
        check(
            &pattern(&json::<Id>()),
            of,
            &[id, &id.to_uppercase()],
            &["", "x", &id[1..], &id.replace('-', "")],
        );
        let prefixes: Vec<_> = (4..=id.len()).map(|length| &id[..length]).collect();
        check(
            &pattern(&json::<IdPrefix>()),
            |text| text.parse::<model::IdPrefix>().is_ok(),
            &prefixes,
            &[
                "",
                "018",
                "x189",
                "01890a5da",
                "01890a5d-ac967",
                &format!("{id}0"),
            ],
        );
        assert!(pattern(&json::<ChosenId>()).is_match(id));
        assert!(!pattern(&json::<ChosenId>()).is_match("db421086-a7d8-5207-b64f-249780c4999b"));
        check(
            &pattern(&json::<Cursor>()),
            |text| text.parse::<model::Cursor>().is_ok(),
            &[
                "6498a2c1b2d3e.01890a5dac96774bbcceb302099a8057.deadbeef",
                "-1.01890a5dac96774bbcceb302099a8057.0",
            ],
            &[
                "",
                "1",
                "1.2.3",
                "ffffffffffffffff.01890a5dac96774bbcceb302099a8057.0",
            ],
        );
    }

    fn spec() -> model::TaskSpec {
        let new = crate::NewTask::new(model::Command::Shell("true".into()));
        model::TaskSpec {
            user: model::UserName::new("ada").unwrap(),
            priority: 0,
            compile: None,
            execute: new.execute.into(),
            source: model::Files::new(),
            data: model::Files::new(),
        }
    }

    #[test]
    fn commands_fit_their_schema() {
        let schema = json::<Command>();
        let taken = |text: &str| {
            let mut spec = spec();
            spec.execute.command = model::Command::Shell(text.into());
            spec.check(&Bounds::default()).is_ok()
        };
        let spaces: String = (0..=u32::from(char::MAX))
            .filter_map(char::from_u32)
            .filter(|c| c.is_whitespace())
            .collect();
        let refused: Vec<_> = spaces.chars().map(String::from).collect();
        let mut fits_not: Vec<_> = refused.iter().map(String::as_str).collect();
        let long = "x".repeat(64 << 10);
        let too_long = "x".repeat(70_000);
        fits_not.extend(["", "\0", "a\0b", &spaces, &too_long]);
        let inside = format!("{spaces}x{spaces}");
        check_schema(
            &schema["oneOf"][0],
            taken,
            &["true", "\u{feff}", "\u{200b}", &inside, &long],
            &fits_not,
        );
        // Engines disagree about what these are.
        let pattern = schema["oneOf"][0]["pattern"].as_str().unwrap();
        assert!(!pattern.contains("\\s") && !pattern.contains("\\S"), "{pattern}");
    }

    #[test]
    fn bounds_are_those_of_the_server() {
        let bounds = Bounds {
            files: 3,
            command_bytes: 300,
            args: 4,
            env: 5,
            ..Bounds::default()
        };
        let mut schemas = serde_json::json!({});
        set_bounds(&mut schemas, &bounds);
        // What is as much as the schema says is taken, and one more is refused.
        let check = |place: &str, set: &dyn Fn(&mut model::TaskSpec, usize)| {
            let limit = schemas.pointer(place).and_then(Value::as_u64);
            let limit = limit.unwrap_or_else(|| panic!("{place} is missing: {schemas}"));
            let taken = |count: u64| {
                let mut spec = spec();
                set(&mut spec, usize::try_from(count).unwrap());
                spec.check(&bounds).is_ok()
            };
            assert!(taken(limit), "{place}: {limit} is refused");
            assert!(!taken(limit + 1), "{place}: {} is taken", limit + 1);
        };
        let words = |count: usize| vec!["x".to_string(); count];
        check("/Command/oneOf/0/maxLength", &|spec, count| {
            spec.execute.command = model::Command::Shell("x".repeat(count));
        });
        check("/Command/oneOf/1/maxItems", &|spec, count| {
            spec.execute.command = model::Command::Argv(words(count));
        });
        check("/Command/oneOf/1/items/maxLength", &|spec, count| {
            spec.execute.command = model::Command::Argv(vec!["x".repeat(count)]);
        });
        check("/Word/maxLength", &|spec, count| {
            spec.execute.args = vec!["x".repeat(count)];
        });
        check("/Execute/properties/args/maxItems", &|spec, count| {
            spec.execute.args = words(count);
        });
        check("/Environment/maxProperties", &|spec, count| {
            spec.execute.env = (0..count).map(|n| (n.to_string(), String::new())).collect();
        });
        let longest = |kind: &str| schemas["Environment"][kind]["maxLength"].as_u64().unwrap();
        let name = "n".repeat(usize::try_from(longest("propertyNames")).unwrap());
        check("/Environment/additionalProperties/maxLength", &|spec, count| {
            spec.execute.env = [(name.clone(), "x".repeat(count))].into();
        });
        check("/Files/oneOf/0/maxProperties", &|spec, count| {
            let file = model::File {
                content: model::Content::empty(),
                executable: false,
            };
            let paths = (0..count).map(|n| model::FilePath::new(n.to_string()).unwrap());
            spec.source = paths.map(|path| (path, file.clone())).collect();
        });
    }

    #[test]
    fn base64_fits_its_pattern() {
        use base64::Engine;
        let schema = json::<Content>();
        check(
            &pattern(&schema["oneOf"][2]["properties"]["base64"]),
            |text| base64::engine::general_purpose::STANDARD.decode(text).is_ok(),
            &["", "//79", "YQ==", "YWI=", "YWJj"],
            &["YQ", "YQ=", "YR==", "YWJ=", "Y-==", "YQ==\n"],
        );
    }

    #[test]
    fn examples_are_taken() {
        let files = json::<Files>();
        for example in files["oneOf"][0]["examples"].as_array().unwrap() {
            serde_json::from_value::<crate::Files>(example.clone()).unwrap();
        }
        for (schema, is_span) in [
            (json::<Duration>(), true),
            (json::<Size>(), false),
            (json::<StackSize>(), false),
        ] {
            for form in schema["oneOf"].as_array().unwrap() {
                for example in form["examples"].as_array().unwrap() {
                    let taken = match is_span {
                        true => serde_json::from_value::<crate::Span>(example.clone()).is_ok(),
                        false => serde_json::from_value::<crate::Size>(example.clone()).is_ok(),
                    };
                    assert!(taken, "{example}");
                }
            }
        }
    }
}
