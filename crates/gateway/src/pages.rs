//! Pages for people: plain HTML, made here, that works without JavaScript.

mod cancel;
mod docs;
mod layout;
mod list;
mod missing;
mod problem;
mod show;
mod task;

pub(crate) use cancel::cancel;
pub(crate) use docs::docs;
pub(crate) use list::list;
pub(crate) use missing::{no_method, no_route};
pub(crate) use problem::show_problem;
pub(crate) use task::task;
