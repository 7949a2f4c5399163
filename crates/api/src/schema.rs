//! OpenAPI schemas that cannot be derived: values with more than one form, and types of the model.
//! Each type here has no values and only defines a component of the schema.
//!
//! The server accepts the form of every value that matches its schema. The operator can set how large a task may be: the
//! schemas here have the default limits, and [`set_task_size_limits`] replaces them. A schema cannot express all limits:
//! it counts characters and not bytes, and limits on several fields together are only in the descriptions.

use model::TaskSizeLimits;
use utoipa::openapi::schema::{
    AdditionalProperties, AllOf, AllOfBuilder, AnyOfBuilder, ArrayBuilder, KnownFormat, ObjectBuilder,
    OneOfBuilder, Schema, SchemaFormat, Type,
};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

use crate::{byte_size, duration, limit_value};

mod judging;

pub use judging::{
    CaseName, Cases, Check, GroupRules, JudgeProtocol, Points, ProblemName, StopRule, Verdict,
};

/// Declares types that only define a schema component of the same name.
macro_rules! schemas {
    ($($name:ident = $schema:expr;)*) => {$(
        /// Defines the component of this name in the OpenAPI document of the HTTP API; it is not used as a value.
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

use schemas;

schemas! {
    Id = text("A UUID in its hyphenated form.").format(Some(SchemaFormat::Custom("uuid".into())))
        .pattern(Some(UUID))
        .examples(["01890a5d-ac96-774b-bcce-b302099a8057"]);
    ChosenId = text(
        "A UUID of your choice in its hyphenated form, preferably of version 4 or 7. Version 5 is not accepted: the \
         server derives ids of version 5 from an `Idempotency-Key`.",
    )
        .format(Some(SchemaFormat::Custom("uuid".into())))
        .pattern(Some(UUID_BUT_5))
        .examples(["01890a5d-ac96-774b-bcce-b302099a8057"]);
    IdPrefix = text("The beginning of an id, in its hyphenated form.")
        .pattern(Some(
            "^([0-9A-Fa-f]{4,8}|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){0,2}-[0-9A-Fa-f]{0,4}\
             |[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{0,12})$",
        ))
        .examples(["01890a5d-ac"]);
    Time = text("RFC 3339 with microseconds, in UTC.")
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .examples(["2026-01-31T12:00:00.123456Z"]);
    Status = text("The status of a task.")
        .enum_values(Some(model::TaskStatus::ALL.map(model::TaskStatus::as_str)));
    Reason = text("Why a step ended.")
        .enum_values(Some(model::OutcomeReason::ALL.map(model::OutcomeReason::as_str)));
    WaitReasonName = text("Why a task has not begun to run.")
        .enum_values(Some(model::WaitReason::NAMES));
    Step = text("A step of a task.")
        .enum_values(Some([model::StepName::Compile, model::StepName::Execute].map(model::StepName::as_str)));
    Stream = text("An output stream of a step.")
        .enum_values(Some([model::StreamName::Stdout, model::StreamName::Stderr].map(model::StreamName::as_str)));
    AttemptEnd = text("How an attempt ended.")
        .enum_values(Some(model::RecordedEnd::ALL.map(model::RecordedEnd::as_str)));
    LeftOutReason = text("Why a file was not kept.")
        .enum_values(Some(model::LeftOutReason::ALL.map(model::LeftOutReason::as_str)));
    HistorySpan = text("The last hour, or the last day.")
        .enum_values(Some(model::HistorySpan::ALL.map(model::HistorySpan::as_str)));
    Order = text("The sort order of tasks.").enum_values(Some(["newest", "oldest"]));
    ExportFormat = text("The format of a file with tasks.").enum_values(Some(["jsonl", "csv"]));
    User = text("A user's name, of up to 128 characters.")
        .min_length(Some(1)).max_length(Some(128))
        .pattern(Some(format!("^[^{CONTROL}]+$")))
        .examples(["alice"]);
    GroupName = text("A group's name, of up to 128 characters without `/`.")
        .min_length(Some(1)).max_length(Some(128))
        .pattern(Some(format!("^{}$", group_name_pattern())))
        .examples(["sweep-17"]);
    GroupCursor = text("The `next` of the previous page, unchanged.")
        .max_length(Some(257))
        .pattern(Some(format!("^[^{CONTROL}]{{1,128}}/{}$", group_name_pattern())));
    Label = text("A label as `key:value`.")
        .pattern(Some(format!("^{LABEL_KEY}:[^{CONTROL}]{{0,256}}$")))
        .examples(["assignment:hw3"]);
    Labels = ObjectBuilder::new()
        .description(Some(
            "Up to 16 labels. A key has letters, digits, `.`, `_`, `-` and `/`; a value has up to 256 characters.",
        ))
        .property_names(Some(text("A key of up to 64 characters.").pattern(Some(format!("^{LABEL_KEY}$")))))
        .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(Schema::from(
            text("A value.").max_length(Some(model::Labels::MAX_VALUE)).pattern(Some(format!("^[^{CONTROL}]*$"))),
        )))))
        .max_properties(Some(model::Labels::MAX_COUNT))
        .examples([serde_json::json!({"assignment": "hw3"})]);
    KeepPattern = text(
        "A pattern of files beneath the workspace, of up to 1024 bytes. `?` is one character and `*` any number of them \
         within a name; `**` as a whole name is any number of folders.",
    )
        .max_length(Some(model::KeepPattern::MAX_BYTES / 4))
        .pattern(Some(keep_pattern()))
        .examples(["out/*.csv", "report.pdf", "logs/**"]);
    Flag = text("Whether to do it.").enum_values(Some(["true", "false"]));
    // A server ignores ranges and conditions that it does not understand, so any text is allowed.
    Etag = text("An entity tag.").pattern(Some(HEADER_TEXT)).examples(["\"2cf24dba5fb0a30e\""]);
    ByteRange = text("One range of bytes. Other values are ignored.").pattern(Some(HEADER_TEXT))
        .examples(["bytes=0-1023"]);
    FilePath = text("The path of a kept file.").max_length(Some(1024))
        .pattern(Some(format!("^[^/{CONTROL}]+(?:/[^/{CONTROL}]+)*$")))
        .examples(["out/hello.txt"]);
    ExecutorName = text("An executor's name.").pattern(Some("^[A-Za-z0-9._-]{1,128}$")).examples(["lab-1"]);
    DrainReason = text("Why the executor is drained: one line.")
        .min_length(Some(1)).max_length(Some(model::DrainReason::MAX_CHARACTERS))
        // Not only spaces; no control characters or other separators of lines.
        .pattern(Some(format!("^ *[^ {CONTROL}{LINE_SEPARATORS}][^{CONTROL}{LINE_SEPARATORS}]*$")))
        .examples(["new disk"]);
    Network = text("A network's name.").pattern(Some("^[a-z0-9._-]{1,64}$")).examples(["loopback"]);
    LanguageName = text("A language's name or alias. Upper and lower case are the same.")
        .pattern(Some("^[A-Za-z0-9+#*._-]{1,32}$"))
        .examples(["python"]);
    RootName = text("A root's name.").pattern(Some("^(?!.*\\.\\.)[a-z0-9][a-z0-9._-]{0,63}$")).examples(["contest"]);
    Sha256 = text("SHA-256 in lower-case hexadecimal digits.").pattern(Some(SHA256))
        .examples(["2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"]);
    Cursor = text("The `next` of the previous page, unchanged.")
        .pattern(Some("^-?[0-7]?[0-9a-f]{1,15}\\.[0-9a-f]{32}\\.[0-9a-f]{1,8}$"));
    Bytes = text("Any bytes.").format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary)));
    StreamEvent = ObjectBuilder::new()
        .description(Some(
            "One server-sent event. The data of a `status` event is an `Event`, of a `case` event a `CaseEvent`, of an `output` event an `Output`, of a \
             `group` event a `Group`, of a `problem` event a `Problem`; all are JSON on one line.",
        ))
        .property(
            "event",
            text("The type of the data.").enum_values(Some(["status", "case", "output", "group", "problem"])),
        )
        .property("data", text("JSON.").content_media_type("application/json"))
        .required("event")
        .required("data");
    Wait = text("Seconds, or numbers with units: ns, us, ms, s, m, h, d.")
        .pattern(Some(duration::pattern_with_zero()))
        .examples(["10", "1m30s"]);
    Duration = OneOfBuilder::new()
        .description(Some(
            "Seconds, or text with units: ns, us, ms, s, m, h, d. More than zero. Responses contain seconds, or `none`.",
        ))
        .item(
            ObjectBuilder::new().schema_type(Type::Number)
                .minimum(Some(1e-9)).maximum(Some(duration::MAX.as_secs_f64()))
                .examples([2]),
        )
        .item(text("Numbers with units.").pattern(Some(duration::pattern())).examples(["2s", "250ms", "1m30s"]))
        .item(no_limit());
    Size = byte_size_schema(1, byte_size::pattern(), ["1MiB", "64k"]);
    StackSize = byte_size_schema(model::Limits::MIN_STACK, byte_size::stack_pattern(), ["8MiB", "64k"]);
    ProcessCount = count_schema(1);
    OpenFileCount = count_schema(model::Limits::MIN_OPEN_FILES);
    Command = command(&TaskSizeLimits::default());
    Word = word(&TaskSizeLimits::default());
    Environment = environment(&TaskSizeLimits::default());
    Content = content(ExecutableField::None, [ContentForm::Text, ContentForm::Base64, ContentForm::Blob]);
    File = content(ExecutableField::Optional, [ContentForm::Text, ContentForm::Base64, ContentForm::Blob]);
    Files = files(&TaskSizeLimits::default());
}

/// Sets the operator's limits in the schema components of an OpenAPI document.
pub fn set_task_size_limits(schemas: &mut serde_json::Value, limits: &TaskSizeLimits) {
    let bounded: [(&str, RefOr<Schema>); 4] = [
        ("Command", command(limits).into()),
        ("Word", word(limits).into()),
        ("Environment", environment(limits).into()),
        ("Files", files(limits).into()),
    ];
    for (name, schema) in bounded {
        schemas[name] = serde_json::to_value(schema).unwrap_or_default();
    }
    schemas["Execute"]["properties"]["args"]["maxItems"] = limits.args.into();
}

fn command(limits: &TaskSizeLimits) -> OneOfBuilder {
    let anything = format!("[^{NUL}]*");
    let program = word(limits).min_length(Some(1)).description(Some("The program."));
    OneOfBuilder::new()
        .description(Some(format!(
            "Text is run by the shell; a list is a program and its arguments, run without a shell. Up to {} bytes, for a \
             list the sum of all words.",
            limits.command_bytes
        )))
        .item(
            text("For the shell.")
                .max_length(Some(limits.command_bytes))
                .pattern(Some(format!("^{anything}[^{SPACE}{NUL}]{anything}$")))
                .examples(["g++ -O2 -o main main.cpp"]),
        )
        .item(
            ArrayBuilder::new()
                .prefix_items([Schema::from(program)])
                .items(word(limits))
                .min_items(Some(1))
                .max_items(Some(limits.args))
                .examples([["./main", "--fast"]]),
        )
}

/// One argument of a command.
fn word(limits: &TaskSizeLimits) -> ObjectBuilder {
    let limit = limits.command_bytes;
    text(&format!("A word of up to {limit} bytes, without NUL."))
        .max_length(Some(limit))
        .pattern(Some(format!("^[^{NUL}]*$")))
}

fn environment(limits: &TaskSizeLimits) -> ObjectBuilder {
    let limit = limits.command_bytes;
    // The limit applies to the name and the value together.
    let name = ENV_NAME_LENGTH.min(limit);
    let value = word(limits).max_length(Some(limit - name));
    ObjectBuilder::new()
        .description(Some(format!(
            "Environment variables by name. A name and its value have up to {limit} bytes together."
        )))
        .property_names(Some(
            text("Not empty, without `=` and NUL.")
                .max_length(Some(name))
                .pattern(Some(format!("^[^={NUL}]+$"))),
        ))
        .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(Schema::from(value)))))
        .max_properties(Some(limits.env))
        .examples([serde_json::json!({"LANG": "C.UTF-8"})])
}

fn files(limits: &TaskSizeLimits) -> OneOfBuilder {
    let listed = listed_files()
        .description(Some(format!(
            "Files by path, up to {} in `source` and `data` together.",
            limits.files
        )))
        .max_properties(Some(limits.files))
        .examples([serde_json::json!({
            "main.cpp": "int main() { return 0; }",
            "run.sh": {"text": "exec ./main\n", "executable": true},
            "logo.bin": {"base64": "//79"},
        })]);
    OneOfBuilder::new()
        .description(Some(
            "Files by path relative to the workspace, or one zip that contains them.",
        ))
        .item(listed)
        .item(zip_of_files())
}

fn listed_files() -> ObjectBuilder {
    ObjectBuilder::new()
        .property_names(Some(path()))
        .property("zip", file_named_zip())
        .additional_properties(Some(AdditionalProperties::RefOr(RefOr::Ref(
            Ref::from_schema_name("File"),
        ))))
}

fn zip_of_files() -> ObjectBuilder {
    let content = OneOfBuilder::new()
        .item(content_object(ContentForm::Base64, ExecutableField::None))
        .item(content_object(ContentForm::Blob, ExecutableField::None));
    ObjectBuilder::new()
        .description(Some("A zip, which is unpacked when the task is added."))
        .property("zip", content)
        .required("zip")
        .additional_properties(Some(AdditionalProperties::FreeForm(false)))
}

const UUID: &str = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$";
const UUID_BUT_5: &str =
    "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-46-9a-fA-F][0-9a-fA-F]{3}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$";
const SHA256: &str = "^[0-9a-f]{64}$";
/// Printable ASCII. HTTP removes white space at the start and the end of a header.
const HEADER_TEXT: &str = "^[!-~](?:[ -~]*[!-~])?$";
const LABEL_KEY: &str = "[A-Za-z0-9._/-]{1,64}";
const NUL: &str = "\\u0000";
const CONTROL: &str = "\\u0000-\\u001f\\u007f-\\u009f";
/// The separators of lines and paragraphs that are no control characters.
const LINE_SEPARATORS: &str = "\\u2028\\u2029";
/// White space as Unicode defines it. `\s` matches different characters in JavaScript, Python and Rust.
const SPACE: &str =
    "\\u0009-\\u000d\\u0020\\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
/// In characters. The server accepts longer names if the value is shorter by as much.
const ENV_NAME_LENGTH: usize = 255;
/// Standard base64 with padding. The unused bits of the last character are zero.
const BASE64: &str = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$";

fn text(description: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(description))
}

/// A number of bytes, or text with a unit.
fn byte_size_schema(least: u64, pattern: String, examples: [&str; 2]) -> OneOfBuilder {
    let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    OneOfBuilder::new()
        .description(Some(
            "Bytes, or text with a unit: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB; a letter alone counts in powers of 1024. \
             More than zero. Responses contain bytes, or `none`.",
        ))
        .item(
            ObjectBuilder::new()
                .schema_type(Type::Integer)
                .minimum(Some(bytes(least)))
                .maximum(Some(bytes(byte_size::MAX)))
                .examples([1 << 20]),
        )
        .item(
            text("A number with a unit.")
                .pattern(Some(pattern))
                .examples(examples),
        )
        .item(no_limit())
}

/// A limit that is a number.
fn count_schema(least: u32) -> OneOfBuilder {
    OneOfBuilder::new()
        .description(Some("A number. Responses contain a number, or `none`."))
        .item(
            ObjectBuilder::new()
                .schema_type(Type::Integer)
                .minimum(Some(least))
                .maximum(Some(u32::MAX)),
        )
        .item(no_limit())
}

/// The word for a limit that does not exist.
fn no_limit() -> ObjectBuilder {
    text("No limit. In a request, the same as null.").enum_values(Some([limit_value::NONE]))
}

/// A pattern of files to keep, as [`model::KeepPattern`] accepts it: names that are not empty, `.` or `..`, and have two
/// stars in a row only as the whole name `**`.
fn keep_pattern() -> String {
    let (any, not_dot) = (format!("[^/*{CONTROL}]"), format!("[^./*{CONTROL}]"));
    let rest = format!(r"(?:{any}\*?)*");
    let name = format!(
        r"(?:\*\*|\*{rest}|{not_dot}\*?{rest}|\.(?:\*{rest}|{not_dot}\*?{rest}|\.(?:\*{rest}|{any}\*?{rest})))"
    );
    format!("^{name}(?:/{name})*$")
}

/// A group's name, which is not `.` or `..`.
fn group_name_pattern() -> String {
    let rest = format!("[^/{CONTROL}]");
    format!(r"(?:[^./{CONTROL}]{rest}{{0,127}}|\.[^./{CONTROL}]{rest}{{0,126}}|\.\.{rest}{{1,126}})")
}

/// A relative path without `.`, `..` and empty parts.
fn path() -> AllOf {
    let string = || ObjectBuilder::new().schema_type(Type::String);
    let parts = |part: String| Some(format!("^{part}(?:/{part})*$"));
    let shape = format!("(?:\\.{{0,2}}[^./{CONTROL}][^/{CONTROL}]*|\\.\\.\\.[^/{CONTROL}]*)");
    // The server counts bytes: an ASCII character has one, others have up to four.
    let ascii = string()
        .max_length(Some(PATH_BYTES))
        .pattern(parts(format!("[\\u0001-.0-\\u007f]{{1,{PATH_PART_BYTES}}}")));
    let other = string()
        .max_length(Some(PATH_BYTES / 4))
        .pattern(parts(format!("[^/]{{1,{}}}", PATH_PART_BYTES / 4)));
    // Some regular expression engines reject one pattern with all limits as too large.
    AllOfBuilder::new()
        .description(Some(
            "A path relative to the workspace, of up to 1019 bytes and up to 31 parts of up to 255 bytes.",
        ))
        .item(string().pattern(parts(shape)))
        .item(string().pattern(Some("^[^/]*(?:/[^/]*){0,30}$")))
        .item(AnyOfBuilder::new().item(ascii).item(other))
        .build()
}

/// The limit of the model, minus the length of `data/`.
const PATH_BYTES: usize = 1019;
const PATH_PART_BYTES: usize = 255;

/// A form of a file's content in the OpenAPI schemas of the HTTP API: text, base64, or the hash of a blob.
#[derive(Clone, Copy)]
enum ContentForm {
    Text,
    Base64,
    Blob,
}

/// Whether a file's object has the field `executable` in the OpenAPI schemas of the HTTP API.
#[derive(Clone, Copy)]
enum ExecutableField {
    /// The object has no such field.
    None,
    Optional,
    Required,
}

/// An object with the content in this form.
fn content_object(form: ContentForm, executable: ExecutableField) -> ObjectBuilder {
    let (name, value) = match form {
        ContentForm::Text => ("text", text("The content itself.")),
        ContentForm::Base64 => (
            "base64",
            text("Standard base64 with padding.").pattern(Some(BASE64)),
        ),
        ContentForm::Blob => (
            "blob",
            text("SHA-256 in hexadecimal digits of a blob that exists on the server.").pattern(Some(SHA256)),
        ),
    };
    let object = ObjectBuilder::new()
        .property(name, value)
        .required(name)
        .additional_properties(Some(AdditionalProperties::FreeForm(false)));
    let flag = ObjectBuilder::new();
    match executable {
        ExecutableField::None => object,
        ExecutableField::Optional => object.property(
            "executable",
            flag.schema_type(utoipa::openapi::schema::SchemaType::from_iter([
                Type::Boolean,
                Type::Null,
            ])),
        ),
        ExecutableField::Required => object
            .property("executable", flag.schema_type(Type::Boolean))
            .required("executable"),
    }
}

/// Text, or an object with the content in one of these forms.
fn content(executable: ExecutableField, forms: [ContentForm; 3]) -> OneOfBuilder {
    let texts = OneOfBuilder::new()
        .description(Some(
            "Text, or an object with text, base64, or the SHA-256 of a blob that exists on the server.",
        ))
        .item(text("The content itself."));
    forms
        .into_iter()
        .fold(texts, |all, one| all.item(content_object(one, executable)))
}

/// A file named `zip` needs `executable` unless it is given as text: without it, the value is a zip of all files.
fn file_named_zip() -> OneOfBuilder {
    OneOfBuilder::new()
        .item(text("The content itself."))
        .item(content_object(ContentForm::Text, ExecutableField::Optional))
        .item(content_object(ContentForm::Base64, ExecutableField::Required))
        .item(content_object(ContentForm::Blob, ExecutableField::Required))
}

#[cfg(test)]
mod tests;
