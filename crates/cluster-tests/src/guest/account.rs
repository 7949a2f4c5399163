//! What the guest tells of itself on its second serial line. `init.sh` writes it.

use crate::Said;

/// How far the guest came.
#[derive(Debug)]
pub(super) enum Account {
    /// Every step ended, and these are all of them.
    Whole(Vec<Said>),
    /// These ended; then it stopped, between steps or in the middle of one.
    Broken(Vec<Said>),
}

impl Account {
    pub(super) fn read(bytes: &[u8]) -> Account {
        let mut rest = bytes;
        let mut ended = Vec::new();
        while let Some(line) = take_line(&mut rest) {
            let words: Vec<_> = line.split(' ').collect();
            match *words.as_slice() {
                ["end", code, out, err] => match (take(&mut rest, out), take(&mut rest, err)) {
                    (Some(stdout), Some(stderr)) => ended.push(Said {
                        code: code.parse().expect("an exit code"),
                        stdout: stdout.to_vec(),
                        stderr: String::from_utf8_lossy(stderr).into_owned(),
                    }),
                    _ => break,
                },
                ["bye"] => return Account::Whole(ended),
                _ => panic!("the guest says '{line}', and that is nothing that it can say"),
            }
        }
        Account::Broken(ended)
    }
}

/// A line that has its end; without it.
fn take_line<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let (line, after) = rest.split_at(end);
    *rest = &after[1..];
    Some(str::from_utf8(line).expect("a line of the guest's"))
}

/// So many bytes, if they have all come.
fn take<'a>(rest: &mut &'a [u8], size: &str) -> Option<&'a [u8]> {
    let size = size.parse().expect("a size");
    let (taken, after) = rest.split_at_checked(size)?;
    *rest = after;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::Account;

    fn check(bytes: &[u8], expected: &str) {
        let told = match Account::read(bytes) {
            Account::Whole(ended) => format!("whole {}", list(&ended)),
            Account::Broken(ended) => format!("broken {}", list(&ended)),
        };
        assert_eq!(told, expected);
    }

    fn list(ended: &[crate::Said]) -> String {
        let each = ended
            .iter()
            .map(|said| format!("{} {:?} {:?};", said.code, said.text(), said.stderr));
        each.collect()
    }

    #[test]
    fn how_far_it_came() {
        check(b"", "broken ");
        check(b"bye\n", "whole ");
        check(b"end 0 2 0\nhibye\n", r#"whole 0 "hi" "";"#);
        check(
            b"end 3 4 2\nbye\nE\nend 0 0 0\nbye\n",
            r#"whole 3 "bye\n" "E\n";0 "" "";"#,
        );
        check(b"end 0 2 0\nhi", r#"broken 0 "hi" "";"#);
        check(b"end 0 2 9\nhi", "broken ");
        check(b"end 0 0 0\nby", r#"broken 0 "" "";"#);
    }
}
