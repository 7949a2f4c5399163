//! What every store must keep to, said as tests that any store can be put through.
//!
//! Each case is a function over an empty store that panics where the store breaks its word. A store's own
//! tests run all of them with [`keeps_the_contract!`](crate::keeps_the_contract) and
//! [`interleaving::run`]. The store must give up a task after [`LOSSES`] losses
//! and look at [`WINDOW`] tasks for a page.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "these are tests: panicking is how they fail"
)]

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::TaskStore;

pub mod adding;
pub mod cancelling;
pub mod claiming;
pub mod counting;
pub mod damaging;
pub mod fencing;
pub mod finishing;
pub mod interleaving;
pub mod keeping;
pub mod losing;
pub mod paging;
pub mod retiring;
pub mod sample;
pub mod searching;
pub mod telling;
pub mod worker;

/// The `max_attempts` of every store that is put through this.
pub const LOSSES: u32 = 3;

/// The `search_window` of every store that is put through this.
pub const WINDOW: usize = 50;

/// Makes a test of every case. `$make` is an async function that answers an empty store, and beside it
/// whatever has to live as long.
#[macro_export]
macro_rules! keeps_the_contract {
    ($make:ident) => {
        $crate::each_case! { keeps_the_contract $make }
    };
    ($make:ident: $($area:ident { $($case:ident,)* })*) => {
        $(mod $area {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let (_keep, store) = super::$make().await;
                $crate::contract::$area::$case(store).await;
            })*
        })*
    };
}

/// Makes a list of every case, with its name, for a store that is put through all of them in one test: one that
/// needs a server which takes long to start.
#[macro_export]
macro_rules! cases_of_the_contract {
    () => {
        $crate::each_case! { cases_of_the_contract cases }
    };
    ($make:ident: $($area:ident { $($case:ident,)* })*) => {
        [$($($crate::contract::Case {
            name: concat!(stringify!($area), "::", stringify!($case)),
            run: |store| Box::pin($crate::contract::$area::$case(store)),
        },)*)*]
    };
}

/// A case by its name.
#[derive(Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    pub run: fn(Arc<dyn TaskStore>) -> BoxFuture<'static, ()>,
}

/// Hands all cases to another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! each_case {
    ($then:ident $make:ident) => {
        $crate::$then! { $make:
            adding {
                a_task_is_kept_as_it_was_added,
                adding_twice_is_adding_once,
                adding_a_done_task_again_leaves_it_done,
                other_content_under_the_same_id_is_refused,
                a_batch_may_repeat_itself_but_not_contradict_itself,
                a_missing_blob_refuses_the_whole_batch,
                add_times_rise,
                adding_nothing_is_no_error,
            }
            cancelling {
                a_waiting_task_is_cancelled_for_good,
                a_held_task_is_withdrawn,
                a_retrying_task_is_cancelled,
                done_tasks_stay_as_they_are,
                an_unknown_task_is_none,
            }
            claiming {
                higher_priority_first_then_oldest,
                no_more_than_vacant,
                a_task_goes_to_one_executor_only,
                a_claim_is_visible,
                a_released_task_keeps_its_place_in_the_queue,
                a_task_is_left_to_an_executor_that_has_what_it_needs,
                the_largest_executor_is_handed_any_task,
                a_claim_passes_over_a_bounded_number_of_tasks,
            }
            finishing {
                results_are_committed,
                a_short_task_may_end_unseen,
                steps_are_recorded_forwards_only,
                an_end_without_a_result_is_not_recorded,
                a_contradictory_result_is_a_loss,
                a_repeated_report_finishes_once,
                a_broken_attempt_is_tried_again,
                a_task_broken_everywhere_ends,
            }
            fencing {
                an_older_report_is_stale,
                a_session_nobody_opened_has_ended,
                a_second_live_session_is_refused,
                a_successor_brings_the_results_and_gives_back_the_rest,
                a_session_that_left_has_ended,
                leaving_gives_everything_back,
                an_expired_session_has_ended,
                only_the_holder_can_finish,
                what_is_not_held_is_deleted,
                a_name_is_free_after_expiry,
            }
            losing {
                a_lost_answer_is_handed_out_again,
                handing_out_again_uses_up_vacancy,
                unnamed_tasks_are_given_back_without_a_loss,
                expiry_needs_the_seq_that_was_seen,
                attempts_run_out,
                attempts_that_a_restart_finds_unbegun_do_not_run_out,
                given_back_attempts_do_not_run_out,
                platform_failures_use_up_no_attempts,
                each_kind_of_loss_is_counted_for_itself,
                a_task_that_the_platform_never_runs_ends,
            }
            searching {
                by_id,
                by_a_prefix_of_the_id,
                by_user,
                by_status,
                by_executor,
                by_time,
                by_text,
                by_everything_at_once,
                a_page_looks_at_a_bounded_number_of_tasks,
                other_conditions_narrow_what_a_text_is_looked_for_in,
                the_cursor_of_a_users_search_names_no_foreign_task,
                a_condition_without_an_index_of_its_own_is_bounded_too,
            }
            paging {
                pages_are_stable_while_tasks_are_added,
                pages_over_several_statuses,
                a_foreign_cursor_is_refused,
                limits_are_bounded,
                long_commands_are_cut_in_lists,
            }
            counting {
                totals_equal_reality,
                an_empty_store_counts_nothing,
                executors_are_listed_with_what_they_hold,
                executors_long_gone_are_forgotten,
            }
            keeping {
                a_blob_comes_back_as_it_was_put,
                a_blob_may_be_put_twice,
                a_check_leaves_nothing_that_is_shown,
                an_empty_blob_is_a_blob,
                an_unknown_blob_is_none,
                a_blob_without_its_file_is_refused,
                a_scan_finds_every_blob,
            }
            retiring {
                only_tasks_done_long_enough_ago,
                a_bounded_number_at_a_time,
                a_blob_lives_as_long_as_a_task_uses_it,
                asking_for_a_blob_keeps_it,
                a_retired_blob_may_be_put_again,
                the_age_is_advanced_from_what_was_seen,
                every_end_is_stamped,
            }
            telling {
                additions_are_told,
                progress_is_told,
                withdrawals_are_told,
                releases_are_told,
                refusals_are_not,
            }
        }
    };
}
