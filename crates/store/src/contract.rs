//! The contract tests: they define what every [`TaskStore`] must do.
//!
//! Each case is a function that gets an empty store and panics if the store breaks the contract. A store's own tests
//! run all cases with [`contract_tests!`](crate::contract_tests) or [`contract_cases!`](crate::contract_cases), and
//! random histories with [`interleaving::run`]. The store must be configured with [`MAX_ATTEMPTS`] and
//! [`SCAN_LIMIT`].

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "these are tests: panicking is how they fail"
)]

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::TaskStore;

pub mod add;
pub mod attempts;
pub mod blobs;
pub mod cancel;
pub mod change_events;
pub mod claim;
pub mod drain;
pub mod fake_executor;
pub mod fencing;
pub mod finish;
pub mod fixtures;
pub mod forms;
pub mod groups;
pub mod history;
pub mod interleaving;
pub mod judging;
pub mod lost_attempts;
pub mod paging;
pub mod problems;
pub mod queued_before;
pub mod result_blobs;
pub mod retention;
pub mod search;
pub mod search_counts;
pub mod search_scan_limit;
pub mod tools;
pub mod totals;
pub mod unreadable_rows;

/// The `max_attempts` of the store under test.
pub const MAX_ATTEMPTS: u32 = 3;

/// The `search_scan_limit` of the store under test.
pub const SCAN_LIMIT: usize = 50;

/// Defines a test for each case. `$make` is an async function that returns an empty store and a guard, for example its
/// temporary folder, which is dropped after the test.
#[macro_export]
macro_rules! contract_tests {
    ($make:ident) => {
        $crate::for_each_contract_case! { contract_tests $make }
    };
    ($make:ident: $($area:ident { $($case:ident,)* })*) => {
        $(mod $area {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let (_guard, store) = super::$make().await;
                $crate::contract::$area::$case(store).await;
            })*
        })*
    };
}

/// Lists all cases with their names, for a store that runs them in one test because its server takes long to start.
#[macro_export]
macro_rules! contract_cases {
    () => {
        $crate::for_each_contract_case! { contract_cases cases }
    };
    ($make:ident: $($area:ident { $($case:ident,)* })*) => {
        [$($($crate::contract::ContractCase {
            name: concat!(stringify!($area), "::", stringify!($case)),
            run: |store| Box::pin($crate::contract::$area::$case(store)),
        },)*)*]
    };
}

/// One test of the contract that every [`TaskStore`] must pass: a test function that gets an empty store, and its name.
#[derive(Clone, Copy)]
pub struct ContractCase {
    pub name: &'static str,
    pub run: fn(Arc<dyn TaskStore>) -> BoxFuture<'static, ()>,
}

/// Passes all cases to another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_contract_case {
    ($then:ident $make:ident) => {
        $crate::$then! { $make:
            add {
                get_returns_the_task_as_it_was_added,
                adding_the_same_task_twice_adds_it_once,
                adding_a_done_task_again_leaves_it_done,
                other_content_under_the_same_id_is_refused,
                a_batch_may_repeat_a_task_but_not_with_other_content,
                a_missing_blob_refuses_the_whole_batch,
                add_times_strictly_increase,
                an_empty_batch_is_accepted,
            }
            cancel {
                a_queued_task_is_cancelled_for_good,
                cancelling_a_held_task_revokes_its_attempt,
                a_retrying_task_is_cancelled,
                cancelling_a_done_task_changes_nothing,
                cancelling_an_unknown_task_returns_none,
            }
            claim {
                claims_take_the_highest_priority_then_the_oldest_task,
                a_claim_takes_no_more_tasks_than_vacant_slots,
                concurrent_claims_assign_each_task_once,
                a_claim_is_visible_in_the_task,
                a_released_task_keeps_its_place_in_the_queue,
                a_task_beyond_the_capacity_is_left_to_a_larger_executor,
                the_largest_executor_claims_any_task,
                a_claim_skips_a_bounded_number_of_tasks,
                no_task_is_left_to_a_drained_executor,
            }
            drain {
                a_drained_executor_ends_its_tasks_and_claims_none,
                a_lost_assignment_of_a_drained_executor_is_assigned_again,
                a_drain_outlives_sessions,
                draining_again_replaces_the_reason,
                an_unknown_executor_is_not_drained,
                a_drained_executor_is_not_removed,
                drains_are_published,
                the_load_of_the_last_report_is_listed,
            }
            tools {
                only_executors_with_the_tools_claim_a_task,
                claims_keep_the_order_across_requirements,
                a_released_task_still_has_its_requirement,
                tools_last_until_the_next_session,
                an_executor_without_the_tools_does_not_claim_its_task_again,
                tasks_for_a_root_wait_until_an_executor_has_it,
                only_larger_executors_with_the_tools_count,
                a_leading_skip_of_large_tasks_does_not_hide_other_requirements,
                tasks_that_no_executor_can_run_are_in_nobodys_way,
            }
            judging {
                cases_are_handed_out_and_read_as_they_were_added,
                every_verdict_is_committed,
                a_judge_error_is_a_system_error_with_a_result,
                executors_of_earlier_forms_leave_tasks_with_cases,
                the_program_that_judges_needs_tools_too,
            }
            problems {
                a_problem_is_read_as_it_was_put,
                only_the_owner_and_operators_replace_a_problem,
                the_number_of_problems_is_bounded,
                a_problem_with_a_missing_blob_is_refused,
                a_blob_is_kept_while_a_problem_uses_it,
                a_task_keeps_the_blobs_of_its_problem,
            }
            finish {
                results_are_committed,
                a_task_may_finish_without_a_status_report,
                a_status_never_goes_back_to_an_earlier_step,
                a_terminal_status_without_a_result_is_ignored,
                a_result_that_contradicts_the_status_counts_as_a_loss,
                a_repeated_report_commits_its_results_once,
                a_broken_attempt_is_retried,
                a_task_ends_after_too_many_broken_attempts,
            }
            fencing {
                an_older_report_is_stale,
                a_report_of_an_unknown_session_is_answered_ended,
                a_second_live_session_with_the_same_name_is_refused,
                a_restarted_executor_delivers_results_and_releases_the_rest,
                a_session_that_left_is_answered_ended,
                leaving_releases_all_held_tasks,
                an_expired_session_is_answered_ended,
                only_the_current_holder_can_finish_a_task,
                executing_attempts_that_are_not_held_are_deleted,
                an_executor_name_is_free_after_expiry,
                a_restarted_executor_keeps_the_attempts_that_it_names,
                attempts_of_an_earlier_session_are_released,
            }
            attempts {
                a_finished_attempt_is_recorded,
                every_end_of_an_attempt_is_recorded,
                an_attempt_that_had_not_begun_is_not_recorded_as_cancelled,
                the_attempts_of_a_task_that_was_given_up_are_recorded,
                only_the_newest_attempts_are_kept,
                a_task_may_have_its_own_bound_on_attempts,
            }
            forms {
                a_result_of_an_unknown_form_is_not_committed,
            }
            groups {
                every_transition_is_counted,
                groups_of_other_users_are_other_groups,
                failures_are_counted_by_the_reason_of_the_last_step,
                a_retried_task_leaves_the_counters_of_its_group,
                many_tasks_are_cancelled_at_once,
                a_group_ends_with_its_last_task,
                groups_are_listed_by_user_and_name,
            }
            history {
                figures_are_read_as_they_were_written,
                written_figures_replace_those_of_the_same_writer,
                the_oldest_task_in_the_queue_is_found,
                ends_without_a_result_are_counted_once,
            }
            result_blobs {
                a_result_is_committed_when_its_blobs_are_there,
                the_blobs_of_a_late_result_are_not_needed,
                the_blobs_of_a_result_are_kept_with_its_task,
            }
            lost_attempts {
                tasks_of_a_lost_answer_are_assigned_again,
                reassigned_tasks_count_against_vacant_slots,
                tasks_missing_from_a_report_are_released_without_a_loss,
                expiry_requires_the_observed_report_number,
                a_task_ends_after_too_many_lost_attempts,
                unstarted_attempts_of_a_restarted_executor_do_not_count_as_losses,
                released_attempts_do_not_count_as_losses,
                platform_failures_do_not_count_as_losses,
                losses_and_platform_failures_are_counted_separately,
                a_task_ends_after_too_many_platform_failures,
            }
            search {
                by_id,
                by_a_prefix_of_the_id,
                by_user,
                by_status,
                by_executor,
                by_time,
                by_text,
                by_label,
                by_group,
                by_reason,
                by_whether_it_was_retried,
                by_all_fields_together,
            }
            search_counts {
                by_language,
                counts_match_the_tasks_by_status,
                a_count_has_the_filters_of_a_search,
                a_count_examines_a_bounded_number_of_tasks,
            }
            search_scan_limit {
                a_page_examines_a_bounded_number_of_tasks,
                an_indexed_condition_narrows_a_text_search,
                the_cursor_of_a_users_search_names_no_task_of_another_user,
                a_condition_without_an_index_is_bounded_too,
                labels_and_groups_narrow_a_search,
            }
            paging {
                pages_are_stable_while_tasks_are_added,
                pages_merge_several_statuses,
                the_cursor_of_another_search_is_refused,
                the_page_length_is_bounded,
                long_commands_are_shortened_in_lists,
            }
            queued_before {
                tasks_that_a_claim_takes_first_are_before_it,
                only_the_queues_of_the_keys_count,
                a_count_is_limited,
            }
            totals {
                totals_match_the_tasks,
                an_empty_store_has_zero_totals,
                executors_are_listed_with_their_task_counts,
                executors_that_ended_long_ago_are_removed,
            }
            blobs {
                get_returns_the_bytes_that_were_put,
                a_blob_is_read_from_an_offset_on,
                a_blob_may_be_put_twice,
                a_health_check_leaves_no_trace,
                a_blob_may_be_empty,
                an_unknown_blob_is_none,
                putting_a_missing_file_is_refused,
                a_scan_finds_every_blob,
            }
            retention {
                only_tasks_that_ended_long_ago_are_removed,
                each_round_removes_a_bounded_number,
                a_blob_is_kept_while_a_task_uses_it,
                asking_for_a_blob_keeps_it,
                a_removed_blob_may_be_put_again,
                the_age_advances_only_from_the_observed_value,
                every_terminal_status_is_stamped_with_the_age,
            }
            change_events {
                added_tasks_are_published,
                status_changes_are_published,
                revoked_attempts_are_published,
                queued_tasks_are_published_with_their_requirement,
                released_tasks_are_published,
                changed_groups_are_published_once,
                refused_adds_publish_nothing,
            }
        }
    };
}
