//! Tests of `conclave up` through its HTTP API, pages and command line, as a user sees it.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests start processes, and tasks that end with them"
)]

mod harness;
mod history;
mod multipart_builder;
mod raw_connection;
mod system_call_fault;
mod zip_builder;

mod backup;
mod blobs;
mod built_roots;
mod cancel;
mod cli_broken_peers;
mod cli_commands;
mod cli_cut_connections;
mod cli_exit_codes;
mod cli_groups;
mod cli_kept_files;
mod cli_lines;
mod cli_live_output;
mod cli_retries;
mod cli_roots;
mod cli_run;
mod cli_tls;
mod config;
mod descendant_processes;
mod drain;
mod events;
mod failed_start;
mod files;
mod first_task;
mod group_pages;
mod groups;
mod idempotency;
mod invalid_files;
mod invalid_http;
mod invalid_json;
mod invalid_limits;
mod kept_file_bounds;
mod kept_file_downloads;
mod kept_files;
mod kept_files_of_another_user;
mod labels;
mod languages;
mod limits;
mod live_output;
mod live_output_load;
mod machine_limits;
mod many_tasks;
mod named_roots;
mod node_pages;
mod nodes;
mod openapi_conformance;
mod operators;
mod outputs;
mod pages;
mod priority;
mod ran_on;
mod readiness;
mod reloading;
mod request_limits;
mod retention;
mod retries;
mod run_page;
mod run_page_commands;
mod sandbox_command;
mod search;
mod setup_script;
mod sign_in;
mod single_node;
mod slow_clients;
mod step_commands;
mod task_json;
mod task_list;
mod task_page;
mod token_groups;
mod tokens;
mod waiting;
mod workspaces;
