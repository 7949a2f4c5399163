//! Constants of a package: `{{name}}` in its programs and its settings of groups stands for a value.

use std::collections::BTreeMap;

use crate::error::PackageError;
use crate::folder::bounded_bytes;
use crate::package::{PackageContent, PackageFile};

/// Names and values, as `problem.yaml` has them.
pub(crate) type Constants = BTreeMap<String, String>;

/// The text with the values of the constants. Other names in double braces stay as they are.
pub(crate) fn replace_in_text(text: &str, constants: &Constants) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        let (before, from) = rest.split_at(start);
        replaced.push_str(before);
        let found = from[2..].find("}}").and_then(|end| {
            let value = constants.get(&from[2..2 + end])?;
            Some((value, 2 + end + 2))
        });
        match found {
            Some((value, length)) => {
                replaced.push_str(value);
                rest = &from[length..];
            }
            None => {
                replaced.push('{');
                rest = &from[1..];
            }
        }
    }
    replaced.push_str(rest);
    replaced
}

/// Puts the values into the files that are text and name a constant.
pub(crate) fn replace_in_files(files: &mut [PackageFile], constants: &Constants) -> Result<(), PackageError> {
    if constants.is_empty() {
        return Ok(());
    }
    for file in files {
        let PackageContent::Path(path) = &file.content else {
            continue;
        };
        let Ok(text) = String::from_utf8(bounded_bytes(path)?) else {
            continue;
        };
        let replaced = replace_in_text(&text, constants);
        if replaced != text {
            file.content = PackageContent::Bytes(replaced.into_bytes());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_names_are_replaced() {
        let constants: Constants = [("n".into(), "10".into()), ("x_1".into(), "{{n}}".into())].into();
        for (text, expected) in [
            ("int a[{{n}}];", "int a[10];"),
            ("{{n}}{{n}}", "1010"),
            ("{{x_1}}", "{{n}}"),
            ("{{other}} {{n", "{{other}} {{n"),
            ("{{{n}}}", "{10}"),
            ("", ""),
        ] {
            assert_eq!(replace_in_text(text, &constants), expected);
        }
    }
}
