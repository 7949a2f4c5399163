//! Tasks of forms that this program does not know. The store leaves them to newer nodes.

use std::sync::atomic::{AtomicU32, Ordering};

use model::TaskForm;

/// The newest unknown form of tasks that a store has met since it was opened; it logs each newer one once.
#[derive(Debug, Default)]
pub(crate) struct NewerForms {
    /// 0 if there is none.
    newest: AtomicU32,
}

impl NewerForms {
    /// Records the form of a task that a claim has met, if this program does not know it.
    pub(crate) fn record_if_unknown(&self, form: TaskForm) {
        if form.is_known() || self.newest.fetch_max(form.0, Ordering::Relaxed) >= form.0 {
            return;
        }
        tracing::warn!(
            %form, newest_known_form = %TaskForm::NEWEST,
            "the queue has tasks of a newer form, which are left to newer nodes; upgrade Conclave"
        );
    }

    pub(crate) fn newest(&self) -> Option<TaskForm> {
        let newest = self.newest.load(Ordering::Relaxed);
        (newest > 0).then_some(TaskForm(newest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_unknown_form_is_remembered() {
        let forms = NewerForms::default();
        forms.record_if_unknown(TaskForm::NEWEST);
        assert_eq!(forms.newest(), None);
        for newer in [2, 1] {
            forms.record_if_unknown(TaskForm(TaskForm::NEWEST.0 + newer));
            assert_eq!(forms.newest(), Some(TaskForm(TaskForm::NEWEST.0 + 2)));
        }
    }
}
