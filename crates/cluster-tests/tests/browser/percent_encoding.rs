//! Text as a part of a URL.

/// Escapes every byte but letters and digits.
pub(crate) fn percent_encoded(text: &str) -> String {
    let escape = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}
