//! What boot is told about the member: each thing once.

use boot::Word;

#[derive(Debug, Default)]
pub(crate) struct Telling {
    is_ready: bool,
    /// Empty where there is nothing to tell.
    doing: String,
}

impl Telling {
    /// Whether it has ever been ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// What keeps it, or what is wrong.
    pub(crate) fn doing(&mut self, doing: &str) -> Option<Word> {
        if self.doing == doing {
            return None;
        }
        self.doing = doing.to_string();
        Some(Word::Doing(doing.to_string()))
    }

    /// It serves, and nothing is wrong. To be ready again is also how boot hears that what was wrong is over.
    pub(crate) fn ready(&mut self) -> Option<Word> {
        if self.is_ready && self.doing.is_empty() {
            return None;
        }
        self.is_ready = true;
        self.doing.clear();
        Some(Word::Ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_told_and_taken_back() {
        let doing = |text: &str| Some(Word::Doing(text.into()));
        let mut telling = Telling::default();
        assert_eq!(telling.doing("starting"), doing("starting"));
        assert_eq!(telling.doing("starting"), None);
        assert!(!telling.is_ready());
        assert_eq!(telling.ready(), Some(Word::Ready));
        assert_eq!(telling.ready(), None);
        assert_eq!(telling.doing("no primary"), doing("no primary"));
        assert!(telling.is_ready());
        assert_eq!(telling.ready(), Some(Word::Ready));
        assert_eq!(telling.ready(), None);
        assert_eq!(telling.doing("no primary"), doing("no primary"));
    }

    #[test]
    fn ready_takes_nothing_to_tell() {
        assert_eq!(Telling::default().ready(), Some(Word::Ready));
    }
}
