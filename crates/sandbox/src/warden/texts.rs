//! Words in the form that exec takes, made before there is a child that could not allocate.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use libc::c_char;

#[derive(Debug)]
pub(crate) struct Texts {
    texts: Vec<CString>,
    /// To each of them, and a null pointer.
    pointers: Vec<*const c_char>,
}

impl Texts {
    pub(crate) fn of_words(words: &[OsString]) -> Self {
        Self::new(words.iter().map(|word| c_string(word)).collect())
    }

    pub(crate) fn of_environment(env: &[(OsString, OsString)]) -> Self {
        let entry = |(name, value): &(OsString, OsString)| {
            terminated([name.as_bytes(), b"=", value.as_bytes()].concat())
        };
        Self::new(env.iter().map(entry).collect())
    }

    fn new(texts: Vec<CString>) -> Self {
        let pointers = texts
            .iter()
            .map(|text| text.as_ptr())
            .chain([std::ptr::null()])
            .collect();
        Self { texts, pointers }
    }

    /// Valid as long as this is.
    pub(crate) fn as_ptr(&self) -> *const *const c_char {
        self.pointers.as_ptr()
    }

    /// How many bytes the kernel copies of them to a new program.
    pub(crate) fn size(&self) -> usize {
        let of_one = |text: &CString| text.count_bytes() + 1 + size_of::<*const c_char>();
        self.texts.iter().map(of_one).sum()
    }
}

/// The owner's side has refused NUL bytes already; should one get here, the text ends before it.
pub(crate) fn c_string(text: &OsStr) -> CString {
    terminated(text.as_bytes().to_vec())
}

fn terminated(text: Vec<u8>) -> CString {
    CString::new(text).unwrap_or_else(|error| {
        let end = error.nul_position();
        let mut text = error.into_vec();
        text.truncate(end);
        CString::new(text).unwrap_or_default()
    })
}
