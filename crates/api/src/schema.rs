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
mod tests;
