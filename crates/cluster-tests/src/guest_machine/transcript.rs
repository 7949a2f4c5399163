//! Parses what `init.sh` writes to the guest's second serial port: exit code and output of each command.

use crate::CommandOutput;

/// The parsed transcript of a run of a test's virtual machine: the output of each command, up to its end.
#[derive(Debug)]
pub(super) enum GuestTranscript {
    /// All commands ended.
    Complete(Vec<CommandOutput>),
    /// The guest stopped after these commands, or in the middle of the next.
    Interrupted(Vec<CommandOutput>),
}

impl GuestTranscript {
    pub(super) fn parse(bytes: &[u8]) -> GuestTranscript {
        let mut rest = bytes;
        let mut ended = Vec::new();
        while let Some(line) = take_line(&mut rest) {
            let words: Vec<_> = line.split(' ').collect();
            match *words.as_slice() {
                ["end", code, out, err] => match (take(&mut rest, out), take(&mut rest, err)) {
                    (Some(stdout), Some(stderr)) => ended.push(CommandOutput {
                        code: code.parse().expect("an exit code"),
                        stdout: stdout.to_vec(),
                        stderr: String::from_utf8_lossy(stderr).into_owned(),
                    }),
                    _ => break,
                },
                ["bye"] => return GuestTranscript::Complete(ended),
                _ => panic!("unexpected line in the guest's transcript: '{line}'"),
            }
        }
        GuestTranscript::Interrupted(ended)
    }
}

/// The next complete line, without its newline.
fn take_line<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let (line, after) = rest.split_at(end);
    *rest = &after[1..];
    Some(str::from_utf8(line).expect("a line of the guest's"))
}

/// The next `size` bytes, if they are all there.
fn take<'a>(rest: &mut &'a [u8], size: &str) -> Option<&'a [u8]> {
    let size = size.parse().expect("a size");
    let (taken, after) = rest.split_at_checked(size)?;
    *rest = after;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::GuestTranscript;

    fn check(bytes: &[u8], expected: &str) {
        let found = match GuestTranscript::parse(bytes) {
            GuestTranscript::Complete(ended) => format!("whole {}", list(&ended)),
            GuestTranscript::Interrupted(ended) => format!("broken {}", list(&ended)),
        };
        assert_eq!(found, expected);
    }

    fn list(ended: &[crate::CommandOutput]) -> String {
        let each = ended
            .iter()
            .map(|said| format!("{} {:?} {:?};", said.code, said.text(), said.stderr));
        each.collect()
    }

    #[test]
    fn a_transcript_is_complete_only_with_its_last_line() {
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
