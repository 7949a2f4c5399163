//! Judging through the HTTP API of a real node with cells: what each program, check, checker and interactor leads to, and that
//! none of them learns or decides what it must not.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests start processes, and tasks that end with them"
)]

mod harness;
mod written_package;

mod case_contents;
mod comparisons;
mod scores;
mod verdicts;

mod events;
mod many_cases;

mod broken_checkers;
mod checkers;

mod interaction;
mod interaction_traps;

mod answer_hunters;
mod forgeries;
mod hostile_workspaces;

mod cli_judge;
mod cli_problem;

mod pinning;
mod repeats;

mod invalid_cases;
mod problems;
mod without_cells;
