//! What a person probably meant.

/// The known name that is most like `name`, if any is like it at all.
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), *candidate))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, candidate)| candidate)
}

/// Says that there is no such `kind` of thing and what there is instead.
pub(crate) fn unknown(kind: &str, name: &str, known: &[&str]) -> String {
    match nearest(name, known) {
        Some(candidate) => format!("is not a known {kind}; did you mean '{candidate}'?"),
        None => format!("is not a known {kind}; the known ones are {}", known.join(", ")),
    }
}
