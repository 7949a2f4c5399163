//! The calls on blobs, one file for each.

mod get;
mod has;
mod put;

pub(crate) use get::{__path_get, get};
pub(crate) use has::{__path_has, has};
pub(crate) use put::{__path_put, put};
