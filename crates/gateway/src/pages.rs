//! The web pages: HTML rendered on the server. Scripts make parts of it live; without them everything else works.

mod ansi;
mod components;
mod docs;
mod executors;
mod format;
mod group;
mod groups;
mod judge_problems;
mod judicators;
mod languages;
mod layout;
mod list;
mod live;
mod output_view;
mod overview;
mod problem;
mod run;
mod server_address;
mod sign_in;
mod task;

pub(crate) use docs::{RenderedDocs, docs};
pub(crate) use executors::{
    drain as drain_executor, executor, executors, live_executor, live_executors, resume as resume_executor,
};
pub(crate) use group::{
    MAX_TABLES, cancel_all, group, group_results, group_results_csv, live_group, live_group_results,
    retry_failed,
};
pub(crate) use groups::groups;
pub(crate) use judge_problems::{problem, problem_case, problems};
pub(crate) use judicators::{judicators, live_judicators};
pub(crate) use languages::languages;
pub(crate) use list::{cancel_listed, export_listed, list, live_list, retry_listed};
pub(crate) use overview::{live_overview, overview};
pub(crate) use problem::{mark_page, method_not_allowed, route_not_found, show_problems};
pub(crate) use run::{add_from_form, language_defaults, run, show_commands};
pub(crate) use sign_in::{sign_in, sign_out, submit_sign_in};
pub(crate) use task::{cancel, case, fragment, live_task, retry, task, view_file};
