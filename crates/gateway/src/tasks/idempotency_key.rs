//! The `Idempotency-Key` header: requests with the same key add a task only once.

use axum::http::HeaderMap;
use model::{InvalidField, TaskId, UserName};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};
use uuid::Uuid;

/// The `Idempotency-Key` that a client of the HTTP API sent, so that repeated requests add a task only once. Also the
/// key of one task of a batch (see [`IdempotencyKey::at`]).
pub(crate) struct IdempotencyKey(String);

pub(super) const HEADER: &str = "Idempotency-Key";

const MAX_LENGTH: usize = 255;

impl PartialSchema for IdempotencyKey {
    fn schema() -> RefOr<Schema> {
        let schema = ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("Any text of up to 255 bytes."))
            .min_length(Some(1))
            .max_length(Some(MAX_LENGTH))
            // Printable ASCII. HTTP removes white space at the start and the end of a header.
            .pattern(Some("^[!-~](?:[ -~]*[!-~])?$"))
            .examples(["order-4711"]);
        RefOr::T(schema.into())
    }
}

impl ToSchema for IdempotencyKey {}

/// An arbitrary UUID. It must never change, because every id that is derived from a key depends on it.
const NAMESPACE: Uuid = Uuid::from_u128(0x7c0d_6a5e_3f5b_4f0a_9a53_2f1f_8e0c_71d4);

impl IdempotencyKey {
    pub(super) fn read(headers: &HeaderMap) -> Result<Option<IdempotencyKey>, InvalidField> {
        let Some(value) = headers.get(HEADER) else {
            return Ok(None);
        };
        let Ok(text) = std::str::from_utf8(value.as_bytes()) else {
            return Err(InvalidField::new(HEADER, "is not valid UTF-8"));
        };
        match text.len() {
            0 => Err(InvalidField::new(
                HEADER,
                "is empty; give a value of your own, or leave it out",
            )),
            actual if actual > MAX_LENGTH => Err(InvalidField::over_limit(
                HEADER,
                "is too long",
                MAX_LENGTH,
                actual,
            )),
            _ if !text.bytes().all(|byte| matches!(byte, b' '..=b'~')) => Err(InvalidField::new(
                HEADER,
                "may contain only printable ASCII characters",
            )),
            _ => Ok(Some(IdempotencyKey(text.to_string()))),
        }
    }

    /// The key of the task at this index of a batch.
    pub(super) fn at(&self, index: usize) -> IdempotencyKey {
        // A header cannot contain NUL, so no client can send this key.
        IdempotencyKey(format!("{}\0{index}", self.0))
    }

    /// The key of the task that repeats this one.
    pub(super) fn retrying(&self, id: TaskId) -> IdempotencyKey {
        IdempotencyKey(format!("{}\0retry\0{id}", self.0))
    }

    /// The id is derived from the user and the key, so all gateways get the same id without shared state.
    pub(super) fn id(&self, user: &UserName) -> TaskId {
        // A user name has no control characters, so different pairs give different texts.
        let name = format!("{user}\0{}", self.0);
        TaskId(Uuid::new_v5(&NAMESPACE, name.as_bytes()))
    }
}

/// Refuses an id of the form that is derived from keys. Such ids can be computed by everyone, so a user could otherwise
/// block the id of another user's key.
pub(super) fn refuse_derived_form(id: TaskId) -> Result<(), InvalidField> {
    match id.0.get_version_num() {
        5 => Err(InvalidField::new(
            "id",
            format!(
                "is a UUID of version 5, which is reserved for ids derived from an {HEADER}; choose a UUID of version 4 \
                 or 7, or send an {HEADER} instead"
            ),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn an_id_is_derived_from_user_and_key() {
        let id = |user: &str, key: &str| IdempotencyKey(key.into()).id(&UserName::new(user).unwrap());
        assert_eq!(id("ada", "1"), id("ada", "1"));
        assert_ne!(id("ada", "1"), id("ada", "2"));
        assert_ne!(id("ada", "1"), id("bob", "1"));
        assert_ne!(id("ada", "b1"), id("adab", "1"));
        // Stored tasks have these ids: with other values, a repeated request would add them again.
        assert_eq!(id("ada", "1").to_string(), "db421086-a7d8-5207-b64f-249780c4999b");
        let in_batch = |key: &str, index| {
            IdempotencyKey(key.into())
                .at(index)
                .id(&UserName::new("ada").unwrap())
        };
        assert_ne!(in_batch("1", 0), id("ada", "1"));
        assert_ne!(in_batch("1", 0), in_batch("1", 1));
        assert_ne!(in_batch("1", 11), in_batch("11", 1));
        let ada = UserName::new("ada").unwrap();
        let retrying = |key: &str, old: TaskId| IdempotencyKey(key.into()).retrying(old).id(&ada);
        let (one, other) = (id("ada", "1"), id("ada", "2"));
        assert_eq!(retrying("k", one), retrying("k", one));
        assert_ne!(retrying("k", one), retrying("k", other));
        assert_ne!(retrying("k", one), retrying("l", one));
        assert_eq!(
            in_batch("1", 0).to_string(),
            "d454cef9-23be-5377-bf31-c4d81146f333"
        );
    }

    #[test]
    fn clients_cannot_choose_ids_of_the_derived_form() {
        let made = IdempotencyKey("1".into()).id(&UserName::new("ada").unwrap());
        assert_eq!(refuse_derived_form(made).unwrap_err().field, "id");
        assert!(refuse_derived_form(TaskId(uuid::Uuid::now_v7())).is_ok());
        assert!(refuse_derived_form("9e2d6c7f-3a5b-4c1d-8e9f-0123456789ab".parse().unwrap()).is_ok());
    }

    #[test]
    fn keys_are_checked() {
        let read = |value: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(HEADER, HeaderValue::from_bytes(value).unwrap());
            IdempotencyKey::read(&headers).map(|key| key.is_some())
        };
        assert_eq!(read(b"x"), Ok(true));
        assert!(read(b"").is_err());
        assert!(read(b"\xff").is_err());
        assert!(read(&[b'x'; 256]).is_err());
        assert!(matches!(IdempotencyKey::read(&HeaderMap::new()), Ok(None)));
    }
}
