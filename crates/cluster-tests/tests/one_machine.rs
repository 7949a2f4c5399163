//! Conclave on one machine, as a user meets it.

#[path = "one_machine/archive.rs"]
mod archive;
#[path = "one_machine/form.rs"]
mod form;
#[path = "one_machine/socket.rs"]
mod socket;
#[path = "one_machine/stage.rs"]
mod stage;

#[path = "one_machine/backup.rs"]
mod backup;
#[path = "one_machine/bad_files.rs"]
mod bad_files;
#[path = "one_machine/bad_http.rs"]
mod bad_http;
#[path = "one_machine/bad_json.rs"]
mod bad_json;
#[path = "one_machine/bad_limits.rs"]
mod bad_limits;
#[path = "one_machine/blobs.rs"]
mod blobs;
#[path = "one_machine/cancel.rs"]
mod cancel;
#[path = "one_machine/children.rs"]
mod children;
#[path = "one_machine/cli_codes.rs"]
mod cli_codes;
#[path = "one_machine/cli_repeats.rs"]
mod cli_repeats;
#[path = "one_machine/cli_run.rs"]
mod cli_run;
#[path = "one_machine/cli_tls.rs"]
mod cli_tls;
#[path = "one_machine/cli_trouble.rs"]
mod cli_trouble;
#[path = "one_machine/cli_verbs.rs"]
mod cli_verbs;
#[path = "one_machine/commands.rs"]
mod commands;
#[path = "one_machine/config.rs"]
mod config;
#[path = "one_machine/crowded.rs"]
mod crowded;
#[path = "one_machine/description.rs"]
mod description;
#[path = "one_machine/events.rs"]
mod events;
#[path = "one_machine/files.rs"]
mod files;
#[path = "one_machine/first_task.rs"]
mod first_task;
#[path = "one_machine/in_a_cell.rs"]
mod in_a_cell;
#[path = "one_machine/limits.rs"]
mod limits;
#[path = "one_machine/machine_limits.rs"]
mod machine_limits;
#[path = "one_machine/nodes.rs"]
mod nodes;
#[path = "one_machine/order.rs"]
mod order;
#[path = "one_machine/outputs.rs"]
mod outputs;
#[path = "one_machine/pages.rs"]
mod pages;
#[path = "one_machine/readiness.rs"]
mod readiness;
#[path = "one_machine/reloading.rs"]
mod reloading;
#[path = "one_machine/repeating.rs"]
mod repeating;
#[path = "one_machine/retention.rs"]
mod retention;
#[path = "one_machine/search.rs"]
mod search;
#[path = "one_machine/set_up.rs"]
mod set_up;
#[path = "one_machine/shape.rs"]
mod shape;
#[path = "one_machine/single_node.rs"]
mod single_node;
#[path = "one_machine/slow_peers.rs"]
mod slow_peers;
#[path = "one_machine/starting.rs"]
mod starting;
#[path = "one_machine/tokens.rs"]
mod tokens;
#[path = "one_machine/workspaces.rs"]
mod workspaces;
