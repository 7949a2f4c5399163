//! The schemas of judging: cases, checks and verdicts.

use model::{GroupScoring, JudgeProtocol as Protocol, StopRule as Stop};
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, Type,
};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

use super::{CONTROL, listed_files, schemas, text, zip_of_files};

schemas! {
    ProblemName = text("A problem's name.").pattern(Some("^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")).examples(["hello"]);
    CaseName = text("The name of a case or of a group of cases, of up to 128 characters.")
        .min_length(Some(1)).max_length(Some(128))
        .pattern(Some(format!("^[^{CONTROL}]+$")))
        .examples(["secret/01"]);
    Verdict = text("How a case or a task was judged.")
        .enum_values(Some(model::Verdict::ALL.map(model::Verdict::as_str)));
    StopRule = text("Which cases run when one was not accepted.").enum_values(Some(Stop::ALL.map(Stop::as_str)));
    JudgeProtocol = text(
        "`icpc`: exit code 42 accepts and 43 rejects; the arguments are the input, the answer and a folder for messages. \
         `testlib`: exit code 0 accepts, 1 and 2 reject, 7 gives points; the arguments are the input, the output and the answer.",
    ).enum_values(Some(Protocol::ALL.map(Protocol::as_str)));
    Points = ObjectBuilder::new().schema_type(Type::Number)
        .description(Some("A number of points, exact to a millionth."))
        .minimum(Some(0)).maximum(Some(model::Points::MAX.as_f64()))
        .examples([10]);
    Cases = OneOfBuilder::new()
        .description(Some(
            "A list of cases; or a folder or a zip of files, in which `NAME.in` with `NAME.ans` or `NAME.out` is a case.",
        ))
        .item(ArrayBuilder::new().items(Ref::from_schema_name("Case")).min_items(Some(1)).max_items(Some(model::Judging::MAX_CASES)))
        .item(
            listed_files()
                .description(Some("The files of the cases by path."))
                .examples([serde_json::json!({"1.in": "1 2\n", "1.ans": "3\n"})]),
        )
        .item(zip_of_files());
    Check = OneOfBuilder::new()
        .description(Some(
            "How the output of a case is checked. `exact`: byte by byte. `lines`: without blanks at the end of lines and empty \
             lines at the end. `tokens`: word by word. `none`: every output is accepted. `program`: by a program of your own.",
        ))
        .item(kind(ObjectBuilder::new(), &["none", "exact", "lines"]))
        .item(tokens())
        .item(program());
    GroupRules = ObjectBuilder::new()
        .description(Some(
            "How the points of groups of cases add up, by the name of the group: `sum` is the sum of its cases, `min` the least \
             points of any of them, `pass_all` the sum if all are accepted and else nothing. A group that is not listed has the sum.",
        ))
        .property_names(Some(text("A group's name.").min_length(Some(1)).max_length(Some(128)).pattern(Some(format!("^[^{CONTROL}]+$")))))
        .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(Schema::from(
            ObjectBuilder::new()
                .property("score", text("The rule.").enum_values(Some(GroupScoring::ALL.map(GroupScoring::as_str))))
                .additional_properties(Some(AdditionalProperties::FreeForm(false))),
        )))))
        .examples([serde_json::json!({"small": {"score": "min"}})]);
}

fn kind(object: ObjectBuilder, kinds: &[&str]) -> ObjectBuilder {
    object
        .property(
            "kind",
            text("The kind of the check.").enum_values(Some(kinds.iter().copied())),
        )
        .required("kind")
        .additional_properties(Some(AdditionalProperties::FreeForm(false)))
}

fn tokens() -> ObjectBuilder {
    let flag = |description: &str| {
        ObjectBuilder::new()
            .schema_type(Type::Boolean)
            .description(Some(description))
    };
    let tolerance = |description: &str| {
        ObjectBuilder::new()
            .schema_type(Type::Number)
            .minimum(Some(0))
            .description(Some(description))
    };
    kind(ObjectBuilder::new(), &["tokens"])
        .property("case_sensitive", flag("Upper and lower case differ."))
        .property(
            "space_sensitive",
            flag("The blanks between words must be equal, too."),
        )
        .property(
            "float_tolerance",
            tolerance("By how much numbers may differ, absolute or relative."),
        )
        .property(
            "float_absolute_tolerance",
            tolerance("By how much numbers may differ."),
        )
        .property(
            "float_relative_tolerance",
            tolerance("By which part of the expected number numbers may differ."),
        )
}

/// The schema of a program, with its kind.
fn program() -> RefOr<Schema> {
    match crate::JudgeProgram::schema() {
        RefOr::T(Schema::Object(program)) => RefOr::T(Schema::Object(
            kind(ObjectBuilder::from(program), &["program"]).build(),
        )),
        other => other,
    }
}
