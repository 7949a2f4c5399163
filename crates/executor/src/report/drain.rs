//! What the executor does when the judicator says that an operator has drained or resumed it.

use model::ExecutorDrain;

use super::ReportLoop;

impl ReportLoop {
    /// A drained executor gets no new tasks. It ends those that run, and gives back those that wait for a slot, because
    /// another executor may have a free one.
    pub(super) fn on_drain(&mut self, drain: Option<ExecutorDrain>) {
        match &drain {
            Some(drained) if self.drain.is_none() => {
                let by = drained.by.as_ref().map(|user| user.as_str());
                let running = self.attempts.executing().count();
                tracing::warn!(
                    reason = %drained.reason,
                    by,
                    running,
                    "an operator has drained this executor: it takes no new tasks until `conclave resume {}`",
                    self.data_folder.name
                );
            }
            None if self.drain.is_some() => {
                tracing::info!("an operator has resumed this executor; taking tasks again");
            }
            Some(_) | None => {}
        }
        if drain.is_some() {
            self.give_back(|_| true);
        }
        self.drain = drain;
    }
}
