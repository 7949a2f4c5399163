//! Tests of rules that the compiler does not check. This crate contains nothing else.
//!
//! Which crate may use which is read from the table in ARCHITECTURE.md, so that the page stays true.
#![cfg(test)]

mod architecture_page;
mod dependencies;
mod repository;
mod source_files;
mod type_names;
