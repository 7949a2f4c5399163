use model::{
    AttemptNumber, ExecutorName, FollowRequest, InvalidField, OutputAnswer, OutputContent, OutputEvent,
    OutputPosition, OutputRead, OutputRequest, OutputSource, SessionId,
};

use super::ids::{encode_id, parse_executor, parse_id};
use super::{ParseMessage, parse_each, parse_required, parse_text, proto};

impl From<OutputPosition> for proto::OutputPosition {
    fn from(at: OutputPosition) -> Self {
        proto::OutputPosition {
            step: at.source.step.to_string(),
            stream: at.source.stream.to_string(),
            offset: at.offset,
        }
    }
}

impl ParseMessage<OutputPosition> for proto::OutputPosition {
    fn parse(self) -> Result<OutputPosition, InvalidField> {
        Ok(OutputPosition {
            source: OutputSource {
                step: parse_text("step", &self.step)?,
                stream: parse_text("stream", &self.stream)?,
            },
            offset: self.offset,
        })
    }
}

impl From<FollowRequest> for proto::FollowRequest {
    fn from(request: FollowRequest) -> Self {
        proto::FollowRequest {
            id: bytes::Bytes::new(),
            attempt: request.attempt.map(|attempt| attempt.0),
            positions: request.positions.into_iter().map(Into::into).collect(),
        }
    }
}

impl ParseMessage<FollowRequest> for proto::FollowRequest {
    fn parse(self) -> Result<FollowRequest, InvalidField> {
        Ok(FollowRequest {
            attempt: self.attempt.map(AttemptNumber),
            positions: parse_each("positions", self.positions)?,
        })
    }
}

impl From<OutputEvent> for proto::OutputEvent {
    fn from(event: OutputEvent) -> Self {
        use proto::output_event::Content;
        match event {
            OutputEvent::Written { attempt, at, bytes } => proto::OutputEvent {
                attempt: attempt.0,
                at: Some(at.into()),
                content: Some(Content::Written(bytes)),
            },
            OutputEvent::StreamEnded {
                attempt,
                source,
                truncated,
            } => proto::OutputEvent {
                attempt: attempt.0,
                at: Some(OutputPosition { source, offset: 0 }.into()),
                content: Some(Content::Ended(proto::StreamEnd { truncated })),
            },
        }
    }
}

impl ParseMessage<OutputEvent> for proto::OutputEvent {
    fn parse(self) -> Result<OutputEvent, InvalidField> {
        use proto::output_event::Content;
        let attempt = AttemptNumber(self.attempt);
        let at: OutputPosition = parse_required("at", self.at)?;
        match self.content {
            Some(Content::Written(bytes)) => Ok(OutputEvent::Written { attempt, at, bytes }),
            Some(Content::Ended(proto::StreamEnd { truncated })) => Ok(OutputEvent::StreamEnded {
                attempt,
                source: at.source,
                truncated,
            }),
            None => Err(InvalidField::new("content", "is missing")),
        }
    }
}

impl From<OutputRequest> for proto::OutputRequest {
    fn from(request: OutputRequest) -> Self {
        match request {
            OutputRequest::Read(OutputRead { id, attempt_id, at }) => proto::OutputRequest {
                id,
                read: Some(proto::OutputRead {
                    handout: Some(attempt_id.into()),
                    at: Some(at.into()),
                }),
            },
            OutputRequest::Stop { id } => proto::OutputRequest { id, read: None },
        }
    }
}

impl ParseMessage<OutputRequest> for proto::OutputRequest {
    fn parse(self) -> Result<OutputRequest, InvalidField> {
        let id = self.id;
        let Some(proto::OutputRead { handout, at }) = self.read else {
            return Ok(OutputRequest::Stop { id });
        };
        Ok(OutputRequest::Read(OutputRead {
            id,
            attempt_id: parse_required("handout", handout)?,
            at: parse_required("at", at)?,
        }))
    }
}

impl From<OutputAnswer> for proto::OutputAnswer {
    fn from(answer: OutputAnswer) -> Self {
        use proto::output_answer::Content;
        let content = match answer.content {
            OutputContent::Bytes(bytes) => Content::Written(bytes),
            OutputContent::Ended { truncated } => Content::Ended(proto::StreamEnd { truncated }),
            OutputContent::Unknown => Content::Unknown(proto::Nothing {}),
        };
        proto::OutputAnswer {
            from: None,
            id: answer.id,
            content: Some(content),
        }
    }
}

impl ParseMessage<OutputAnswer> for proto::OutputAnswer {
    fn parse(self) -> Result<OutputAnswer, InvalidField> {
        use proto::output_answer::Content;
        let content = match self.content {
            Some(Content::Written(bytes)) => OutputContent::Bytes(bytes),
            Some(Content::Ended(proto::StreamEnd { truncated })) => OutputContent::Ended { truncated },
            Some(Content::Unknown(_)) => OutputContent::Unknown,
            None => return Err(InvalidField::new("content", "is missing")),
        };
        Ok(OutputAnswer { id: self.id, content })
    }
}

/// The first message of an executor that serves output: who it is.
pub(crate) fn first_answer(executor: &ExecutorName, session: SessionId) -> proto::OutputAnswer {
    proto::OutputAnswer {
        from: Some(proto::WatchRequest {
            executor: executor.to_string(),
            session: encode_id(session.0),
        }),
        id: 0,
        content: None,
    }
}

impl ParseMessage<(ExecutorName, SessionId)> for proto::WatchRequest {
    fn parse(self) -> Result<(ExecutorName, SessionId), InvalidField> {
        Ok((
            parse_executor(self.executor)?,
            parse_id("session", &self.session)?,
        ))
    }
}
