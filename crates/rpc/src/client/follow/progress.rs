//! How far a follower of a task's output has come: pure state over the events of all judicators.

use std::collections::BTreeMap;

use model::{AttemptNumber, FollowRequest, OutputEvent, OutputPosition, OutputSource};

/// How far a follower of a task's output has come, over the streams of all judicators.
#[derive(Clone, Debug)]
pub(super) struct FollowProgress {
    /// The attempt to which the places belong.
    attempt: Option<AttemptNumber>,
    places: BTreeMap<OutputSource, StreamPlace>,
}

/// How far a follower has come in one output stream of an attempt.
#[derive(Clone, Copy, Debug, Default)]
struct StreamPlace {
    offset: u64,
    has_ended: bool,
}

/// What a follower does with an event of one judicator.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MergeDecision {
    /// Nobody has seen this yet.
    PassOn(OutputEvent),
    /// Another judicator has sent this already, or it belongs to an earlier attempt.
    Drop,
    /// Bytes are missing before this event. The stream of this judicator must be opened again.
    Gap,
}

impl FollowProgress {
    pub(super) fn new(request: FollowRequest) -> FollowProgress {
        let place = |at: OutputPosition| {
            let place = StreamPlace {
                offset: at.offset,
                has_ended: false,
            };
            (at.source, place)
        };
        FollowProgress {
            attempt: request.attempt,
            places: request.positions.into_iter().map(place).collect(),
        }
    }

    /// The request that continues here.
    pub(super) fn request(&self) -> FollowRequest {
        let position = |(source, place): (&OutputSource, &StreamPlace)| OutputPosition {
            source: *source,
            offset: place.offset,
        };
        FollowRequest {
            attempt: self.attempt,
            positions: self.places.iter().map(position).collect(),
        }
    }

    pub(super) fn merge(&mut self, event: OutputEvent) -> MergeDecision {
        let (attempt, source) = match &event {
            OutputEvent::Written { attempt, at, .. } => (*attempt, at.source),
            OutputEvent::StreamEnded { attempt, source, .. } => (*attempt, *source),
        };
        if self.attempt.is_some_and(|current| attempt < current) {
            return MergeDecision::Drop;
        }
        if self.attempt.is_some_and(|current| attempt > current) {
            // The next attempt writes its output from the beginning.
            for place in self.places.values_mut() {
                *place = StreamPlace::default();
            }
        }
        self.attempt = Some(attempt);
        let Some(place) = self.places.get_mut(&source) else {
            return MergeDecision::Drop;
        };
        match event {
            OutputEvent::Written { at, mut bytes, .. } => {
                let Some(known) = place.offset.checked_sub(at.offset) else {
                    return MergeDecision::Gap;
                };
                if known >= bytes.len() as u64 {
                    return MergeDecision::Drop;
                }
                let bytes = bytes.split_off(usize::try_from(known).unwrap_or(bytes.len()));
                let at = OutputPosition {
                    offset: place.offset,
                    ..at
                };
                place.offset += bytes.len() as u64;
                MergeDecision::PassOn(OutputEvent::Written { attempt, at, bytes })
            }
            OutputEvent::StreamEnded { .. } if place.has_ended => MergeDecision::Drop,
            ended @ OutputEvent::StreamEnded { .. } => {
                place.has_ended = true;
                MergeDecision::PassOn(ended)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use model::{StepName, StreamName};

    use super::*;

    const STDOUT: OutputSource = OutputSource::new(StepName::Execute, StreamName::Stdout);
    const STDERR: OutputSource = OutputSource::new(StepName::Execute, StreamName::Stderr);

    fn written(attempt: u32, offset: u64, text: &'static str) -> OutputEvent {
        OutputEvent::Written {
            attempt: AttemptNumber(attempt),
            at: OutputPosition {
                source: STDOUT,
                offset,
            },
            bytes: Bytes::from_static(text.as_bytes()),
        }
    }

    fn ended(attempt: u32) -> OutputEvent {
        OutputEvent::StreamEnded {
            attempt: AttemptNumber(attempt),
            source: STDOUT,
            truncated: false,
        }
    }

    #[test]
    fn each_byte_of_the_newest_attempt_is_passed_on_once() {
        let positions = vec![OutputPosition {
            source: STDOUT,
            offset: 3,
        }];
        let mut progress = FollowProgress::new(FollowRequest {
            attempt: None,
            positions,
        });
        let mut check = |event: OutputEvent, expected: MergeDecision| {
            assert_eq!(progress.merge(event.clone()), expected, "{event:?}");
        };
        use MergeDecision::{Drop, Gap, PassOn};
        check(written(1, 3, "abc"), PassOn(written(1, 3, "abc")));
        check(written(1, 3, "abc"), Drop);
        check(written(1, 4, "bcde"), PassOn(written(1, 6, "de")));
        check(written(1, 9, "x"), Gap);
        let other = OutputEvent::StreamEnded {
            attempt: AttemptNumber(1),
            source: STDERR,
            truncated: true,
        };
        check(other, Drop);
        check(ended(1), PassOn(ended(1)));
        check(ended(1), Drop);
        check(written(2, 0, "new"), PassOn(written(2, 0, "new")));
        check(written(1, 8, "late"), Drop);
        check(ended(2), PassOn(ended(2)));
        // A judicator may know of the next attempt before its first byte.
        check(ended(3), PassOn(ended(3)));
        let request = progress.request();
        assert_eq!(
            (request.attempt, request.positions[0].offset),
            (Some(AttemptNumber(3)), 0)
        );
    }
}
