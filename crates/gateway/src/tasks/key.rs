//! `Idempotency-Key`: adding with the same key is adding once.

use axum::http::HeaderMap;
use model::{Invalid, TaskId, UserName};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};
use uuid::Uuid;

/// What the client sent, or with a place in a batch (see [`Key::at`]).
pub(super) struct Key(String);

pub(super) const HEADER: &str = "Idempotency-Key";

const LIMIT: usize = 255;

/// The header as it is described to programs.
pub(crate) struct IdempotencyKey;

impl PartialSchema for IdempotencyKey {
    fn schema() -> RefOr<Schema> {
        let schema = ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("Any text of up to 255 bytes."))
            .min_length(Some(1))
            .max_length(Some(LIMIT))
            // What a header can hold: white space at either end would be lost on the way.
            .pattern(Some("^[!-~](?:[ -~]*[!-~])?$"))
            .examples(["order-4711"]);
        RefOr::T(schema.into())
    }
}

impl ToSchema for IdempotencyKey {}

/// Any fixed value will do, and it must never change: it is part of every id made from a key.
const NAMESPACE: Uuid = Uuid::from_u128(0x7c0d_6a5e_3f5b_4f0a_9a53_2f1f_8e0c_71d4);

impl Key {
    pub(super) fn read(headers: &HeaderMap) -> Result<Option<Key>, Invalid> {
        let Some(value) = headers.get(HEADER) else {
            return Ok(None);
        };
        let Ok(text) = std::str::from_utf8(value.as_bytes()) else {
            return Err(Invalid::new(HEADER, "is not valid UTF-8"));
        };
        match text.len() {
            0 => Err(Invalid::new(
                HEADER,
                "is empty; give a value of your own, or leave it out",
            )),
            actual if actual > LIMIT => Err(Invalid::beyond(HEADER, "is too long", LIMIT, actual)),
            _ => Ok(Some(Key(text.to_string()))),
        }
    }

    /// The key of the task at this place of a batch.
    pub(super) fn at(&self, index: usize) -> Key {
        // A header has no NUL, so this is no key that a client could send by itself.
        Key(format!("{}\0{index}", self.0))
    }

    /// The id follows from the user and the key, so every gateway finds the same one and none keeps a table.
    pub(super) fn id(&self, user: &UserName) -> TaskId {
        // A name has no control characters, so no two pairs join to the same text.
        let name = format!("{user}\0{}", self.0);
        TaskId(Uuid::new_v5(&NAMESPACE, name.as_bytes()))
    }
}

/// Refuses an id that has the form of the ids made from keys. Everyone can compute those: a user who could choose
/// one would take it away from the user whose key it follows from.
pub(super) fn refuse_form_of_keys(id: TaskId) -> Result<(), Invalid> {
    match id.0.get_version_num() {
        5 => Err(Invalid::new(
            "id",
            format!(
                "is a UUID of version 5, which only an {HEADER} makes here; choose one of version 4 or 7, or send \
                 an {HEADER} instead"
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
    fn an_id_follows_from_user_and_key() {
        let id = |user: &str, key: &str| Key(key.into()).id(&UserName::new(user).unwrap());
        assert_eq!(id("ada", "1"), id("ada", "1"));
        assert_ne!(id("ada", "1"), id("ada", "2"));
        assert_ne!(id("ada", "1"), id("bob", "1"));
        assert_ne!(id("ada", "b1"), id("adab", "1"));
        // Stored tasks carry these ids: another value would add them a second time.
        assert_eq!(id("ada", "1").to_string(), "db421086-a7d8-5207-b64f-249780c4999b");
        let in_batch = |key: &str, index| Key(key.into()).at(index).id(&UserName::new("ada").unwrap());
        assert_ne!(in_batch("1", 0), id("ada", "1"));
        assert_ne!(in_batch("1", 0), in_batch("1", 1));
        assert_ne!(in_batch("1", 11), in_batch("11", 1));
        assert_eq!(
            in_batch("1", 0).to_string(),
            "d454cef9-23be-5377-bf31-c4d81146f333"
        );
    }

    #[test]
    fn ids_in_the_form_of_keys_are_not_chosen() {
        let made = Key("1".into()).id(&UserName::new("ada").unwrap());
        assert_eq!(refuse_form_of_keys(made).unwrap_err().field, "id");
        assert!(refuse_form_of_keys(TaskId::generate()).is_ok());
        assert!(refuse_form_of_keys("9e2d6c7f-3a5b-4c1d-8e9f-0123456789ab".parse().unwrap()).is_ok());
    }

    #[test]
    fn keys_are_checked() {
        let read = |value: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(HEADER, HeaderValue::from_bytes(value).unwrap());
            Key::read(&headers).map(|key| key.is_some())
        };
        assert_eq!(read(b"x"), Ok(true));
        assert!(read(b"").is_err());
        assert!(read(b"\xff").is_err());
        assert!(read(&[b'x'; 256]).is_err());
        assert!(matches!(Key::read(&HeaderMap::new()), Ok(None)));
    }
}
