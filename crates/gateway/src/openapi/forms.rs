//! Properties of forms and parameters that utoipa's macros cannot express.

use utoipa::openapi::encoding::EncodingBuilder;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::schema::{AdditionalProperties, Schema};
use utoipa::openapi::{Components, OpenApi, RefOr};

/// A utoipa modifier that adjusts the form and the parameters in the gateway's OpenAPI document.
pub(super) struct FormModifier;

impl utoipa::Modify for FormModifier {
    fn modify(&self, document: &mut OpenApi) {
        for item in document.paths.paths.values_mut() {
            for operation in operations(item) {
                modify_parameters(operation);
                modify_form(operation);
            }
        }
        if let Some(components) = &mut document.components {
            disallow_unknown_parts(components);
        }
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [
        &mut item.get,
        &mut item.head,
        &mut item.post,
        &mut item.put,
        &mut item.delete,
    ]
    .into_iter()
    .flatten()
}

/// Removes null from the schemas of parameters: an optional parameter can be left out, but cannot be null.
fn modify_parameters(operation: &mut Operation) {
    for parameter in operation.parameters.iter_mut().flatten() {
        let RefOr::T(parameter) = parameter else { continue };
        if let Some(RefOr::T(Schema::OneOf(one_of))) = &parameter.schema {
            let is_null =
                |item: &RefOr<Schema>| serde_json::to_value(item).is_ok_and(|item| item["type"] == "null");
            let mut schemas = one_of.items.iter().filter(|item| !is_null(item));
            if let (Some(only), None) = (schemas.next(), schemas.next()) {
                parameter.schema = Some(only.clone());
            }
        }
    }
}

/// Marks the part `task` of the form as JSON.
fn modify_form(operation: &mut Operation) {
    if let Some(RefOr::T(body)) = &mut operation.request_body
        && let Some(RefOr::T(form)) = body.content.get_mut("multipart/form-data")
    {
        let json = EncodingBuilder::new().content_type(Some("application/json"));
        form.encoding.insert("task".to_string(), json.build());
    }
}

/// Disallows unknown parts, which the server refuses.
fn disallow_unknown_parts(components: &mut Components) {
    if let Some(RefOr::T(Schema::Object(form))) = components.schemas.get_mut("Form") {
        form.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
    }
}
