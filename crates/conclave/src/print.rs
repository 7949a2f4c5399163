//! What clients show: tables for people, JSON for programs, and never a panic when the reader goes away.

mod advice;
mod out;
mod pairs;
mod table;

pub(crate) use advice::complain_about;
pub(crate) use out::{Form, Out, complain, is_closed_pipe};
pub(crate) use pairs::Pairs;
pub(crate) use table::Table;
