//! What commands print: tables for people, JSON for programs. A closed pipe is an error to handle, never a panic.

mod error;
mod key_value_list;
mod question;
mod stdout;
mod table;

pub(crate) use error::print_error;
pub(crate) use key_value_list::KeyValueList;
pub(crate) use question::confirm;
pub(crate) use stdout::{OutputFormat, Stdout, is_closed_pipe, print_message};
pub(crate) use table::TextTable;
