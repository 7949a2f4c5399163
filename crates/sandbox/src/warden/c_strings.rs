//! C strings in the form that exec takes, created before the child exists, which cannot allocate.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use libc::c_char;

/// The arguments or environment of a command as `execve` takes them: a null-terminated array of C strings.
#[derive(Debug)]
pub(crate) struct CStringArray {
    texts: Vec<CString>,
    /// A pointer to each string, and a null pointer.
    pointers: Vec<*const c_char>,
}

impl CStringArray {
    pub(crate) fn from_arguments(arguments: &[OsString]) -> Self {
        Self::new(arguments.iter().map(|argument| c_string(argument)).collect())
    }

    pub(crate) fn from_environment(env: &[(OsString, OsString)]) -> Self {
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

    /// The array is valid as long as `self`.
    pub(crate) fn as_ptr(&self) -> *const *const c_char {
        self.pointers.as_ptr()
    }

    /// How many bytes of these strings and pointers the kernel copies to a new program.
    pub(crate) fn size(&self) -> usize {
        let of_one = |text: &CString| text.count_bytes() + 1 + size_of::<*const c_char>();
        self.texts.iter().map(of_one).sum()
    }
}

/// The owner has already refused NUL bytes. If one gets here, the string ends before it.
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
