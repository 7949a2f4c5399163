//! Parses the answers of judicators.

use model::{InvalidField, Task};

use crate::wire::{ParseMessage, log_left_out, parse_form, proto};
use crate::{CallError, TaskEvent};

/// An answer that cannot be parsed is an error of the judicator, not of the caller.
pub(super) fn parsed_answer<T>(parsed: Result<T, InvalidField>) -> Result<T, CallError> {
    parsed.map_err(|invalid| CallError::Internal(format!("could not parse a judicator's answer: {invalid}")))
}

/// `None` for a status that only newer versions know. The follower gets the next one.
pub(super) fn known_event(event: proto::Event) -> Option<TaskEvent> {
    event
        .parse()
        .map_err(|invalid| log_left_out("events", &invalid))
        .ok()
}

/// A task of a form that this node does not know cannot be shown: fields would be missing.
pub(super) fn parsed_task(task: proto::Task) -> Result<Task, CallError> {
    let form = parse_form(task.spec.as_ref().map_or(0, |spec| spec.form));
    match form.is_known() {
        true => parsed_answer(task.parse()),
        false => Err(CallError::NewerForm(form)),
    }
}
