//! The OpenAPI schemas of what has more than one spelling, or whose words are the model's.
//! Each type here only stands for its schema.

use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, KnownFormat, ObjectBuilder, OneOfBuilder, Schema, SchemaFormat, Type,
};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

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
        .examples(["01890a5d-ac96-774b-bcce-b302099a8057"]);
    Time = text("RFC 3339 with microseconds, in UTC.")
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .examples(["2026-01-31T12:00:00.123456Z"]);
    Status = text("Where a task stands.")
        .enum_values(Some(model::Status::ALL.map(model::Status::as_str)));
    Reason = text("Why a step ended.")
        .enum_values(Some(model::Reason::ALL.map(model::Reason::as_str)));
    Duration = OneOfBuilder::new()
        .description(Some("Seconds, or text with units: ns, us, ms, s, m, h, d. Answers have seconds."))
        .item(ObjectBuilder::new().schema_type(Type::Number).minimum(Some(0)).examples([2]))
        .item(text("Amounts with units.").examples(["2s", "250ms", "1m30s"]));
    Size = OneOfBuilder::new()
        .description(Some(
            "Bytes, or text with a unit: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB; a letter alone counts in 1024s. \
             Answers have bytes.",
        ))
        .item(ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).examples([268435456]))
        .item(text("An amount with a unit.").examples(["256MiB", "64k"]));
    Command = OneOfBuilder::new()
        .description(Some("Text is run by the shell; a list is a program and its arguments, with no shell between."))
        .item(text("For the shell.").examples(["g++ -O2 -o main main.cpp"]))
        .item(ArrayBuilder::new().items(text("A word.")).examples([["./main", "--fast"]]));
    Content = one_content(|form| form);
    File = one_content(|form| {
        form.property("executable", ObjectBuilder::new().schema_type(Type::Boolean).default(Some(false.into())))
    });
    Files = OneOfBuilder::new()
        .description(Some("Files by their path relative to the workspace, or one zip that holds them."))
        .item(
            ObjectBuilder::new()
                .description(Some("Files by path."))
                .additional_properties(Some(AdditionalProperties::RefOr(RefOr::Ref(
                    Ref::from_schema_name("File"),
                ))))
                .examples([serde_json::json!({
                    "main.cpp": "int main() { return 0; }",
                    "run.sh": {"text": "exec ./main\n", "executable": true},
                    "logo.bin": {"base64": "//79"},
                })]),
        )
        .item(
            ObjectBuilder::new()
                .description(Some("A zip, unpacked when the task is added."))
                .property("zip", Ref::from_schema_name("Content"))
                .required("zip"),
        );
}

fn text(description: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(description))
}

/// Text, or an object that says in which form the content comes; `more` may add to each object.
fn one_content(more: impl Fn(ObjectBuilder) -> ObjectBuilder) -> OneOfBuilder {
    let form = |name: &str, value: ObjectBuilder| {
        more(
            ObjectBuilder::new()
                .property(name, value)
                .required(name)
                .additional_properties(Some(AdditionalProperties::FreeForm(false))),
        )
    };
    OneOfBuilder::new()
        .description(Some(
            "Text as it is, or as text, base64 or the SHA-256 of a blob that was put before.",
        ))
        .item(text("The content itself."))
        .item(form("text", text("The content itself.")))
        .item(form("base64", text("Standard base64 with padding.")))
        .item(form(
            "blob",
            text("SHA-256 in hex.").pattern(Some("^[0-9a-f]{64}$")),
        ))
}
