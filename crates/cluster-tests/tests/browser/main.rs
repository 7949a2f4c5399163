//! The web pages in a real browser: each page's story as a person would do it, and what must hold on every page.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests start processes, and tasks that end with them"
)]

mod harness;
mod percent_encoding;

mod api_docs;
mod case_draft;
mod case_files;
mod case_links;
mod cluster;
mod error_pages;
mod every_page;
mod executors;
mod groups;
mod injections;
mod judging;
mod overview;
mod run;
mod sign_in;
mod task;
mod tasks;
mod weight;
mod without_scripts;
