//! What a step may use.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::object::objects;
use crate::{Size, Span, schema};

/// What a step may use. What is left out or null is as the operator has set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct Limits {
    /// From start to end.
    #[schema(value_type = Option<schema::Duration>)]
    pub wall: Option<Span>,
    /// CPU time of all processes of the step together.
    #[schema(value_type = Option<schema::Duration>)]
    pub cpu: Option<Span>,
    /// Of all processes of the step together.
    #[schema(value_type = Option<schema::Size>)]
    pub memory: Option<Size>,
    /// On each of stdout and stderr; more ends the step.
    #[schema(value_type = Option<schema::Size>)]
    pub output: Option<Size>,
    /// Processes and threads at one time.
    pub processes: Option<u32>,
}

objects! {
    Limits: "limits as a JSON object";
}

impl From<model::Limits> for Limits {
    fn from(limits: model::Limits) -> Limits {
        let model::Limits {
            wall,
            cpu,
            memory,
            output,
            processes,
        } = limits;
        Limits {
            wall: wall.map(Span),
            cpu: cpu.map(Span),
            memory: memory.map(Size),
            output: output.map(Size),
            processes,
        }
    }
}

impl From<Limits> for model::Limits {
    fn from(limits: Limits) -> model::Limits {
        let Limits {
            wall,
            cpu,
            memory,
            output,
            processes,
        } = limits;
        model::Limits {
            wall: wall.map(|Span(wall)| wall),
            cpu: cpu.map(|Span(cpu)| cpu),
            memory: memory.map(|Size(memory)| memory),
            output: output.map(|Size(output)| output),
            processes,
        }
    }
}
