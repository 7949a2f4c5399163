//! What the request before has done, as a parameter of the page that it leads to.

use std::fmt;
use std::str::FromStr;

use maud::{Markup, html};

use crate::pages::components::{NoticeKind, notice};
use crate::pages::format;

/// What a request that changes many tasks has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListNotice {
    Cancelled(u64),
    Retried {
        tasks: u64,
        /// Whether the request ended before all tasks were retried.
        more: bool,
    },
    NothingChosen,
}

impl ListNotice {
    pub(super) const PARAMETER: &str = "notice";

    pub(super) fn show(self) -> Markup {
        match self {
            ListNotice::Cancelled(0) => notice(
                NoticeKind::Busy,
                &html! { "No task was cancelled: all of them were done." },
            ),
            ListNotice::Cancelled(tasks) => notice(
                NoticeKind::Good,
                &html! { (format::grouped(tasks)) " " (format::plural(tasks, "task")) " cancelled." },
            ),
            ListNotice::Retried {
                tasks: 0,
                more: false,
            } => notice(
                NoticeKind::Busy,
                &html! { "No task was retried: none of them was done without success and not retried before." },
            ),
            ListNotice::Retried { tasks, more } => notice(
                if more { NoticeKind::Busy } else { NoticeKind::Good },
                &html! {
                    (format::grouped(tasks)) " " (format::plural(tasks, "task")) " retried."
                    @if more { " There are more: retry them again." }
                },
            ),
            ListNotice::NothingChosen => notice(NoticeKind::Bad, &html! { "Choose tasks first." }),
        }
    }
}

impl fmt::Display for ListNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListNotice::Cancelled(tasks) => write!(f, "cancelled-{tasks}"),
            ListNotice::Retried { tasks, more: false } => write!(f, "retried-{tasks}"),
            ListNotice::Retried { tasks, more: true } => write!(f, "retried-{tasks}-more"),
            ListNotice::NothingChosen => f.write_str("nothing-chosen"),
        }
    }
}

impl FromStr for ListNotice {
    type Err = ();
    fn from_str(text: &str) -> Result<ListNotice, ()> {
        let tasks = |text: &str| text.parse().map_err(drop);
        match text.split('-').collect::<Vec<_>>()[..] {
            ["cancelled", number] => Ok(ListNotice::Cancelled(tasks(number)?)),
            ["retried", number] => Ok(ListNotice::Retried {
                tasks: tasks(number)?,
                more: false,
            }),
            ["retried", number, "more"] => Ok(ListNotice::Retried {
                tasks: tasks(number)?,
                more: true,
            }),
            ["nothing", "chosen"] => Ok(ListNotice::NothingChosen),
            _ => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_survives_the_url() {
        for notice in [
            ListNotice::Cancelled(7),
            ListNotice::Retried { tasks: 3, more: true },
            ListNotice::Retried {
                tasks: 0,
                more: false,
            },
            ListNotice::NothingChosen,
        ] {
            assert_eq!(notice.to_string().parse(), Ok(notice));
        }
        for other in ["", "cancelled", "cancelled-x", "<b>", "retried-1-less"] {
            assert_eq!(other.parse::<ListNotice>(), Err(()), "{other}");
        }
    }
}
