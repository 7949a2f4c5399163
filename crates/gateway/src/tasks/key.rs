//! `Idempotency-Key`: adding with the same key is adding once.

use axum::http::HeaderMap;
use model::{Invalid, TaskId, UserName};
use uuid::Uuid;

pub(super) struct Key(String);

pub(super) const HEADER: &str = "Idempotency-Key";

const LIMIT: usize = 255;

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

    /// The id follows from the user and the key, so every gateway finds the same one and none keeps a table.
    pub(super) fn id(&self, user: &UserName) -> TaskId {
        // A name has no control characters, so no two pairs join to the same text.
        let name = format!("{user}\0{}", self.0);
        TaskId(Uuid::new_v5(&NAMESPACE, name.as_bytes()))
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
