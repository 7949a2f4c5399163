//! What a step may use.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::object::objects;
use crate::{Size, Span, schema, whole};

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
    #[serde(deserialize_with = "whole::deserialize_optional")]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 4294967295i64)]
    pub processes: Option<u32>,
    /// Of the largest file that the step may write; more ends the process that writes it.
    #[schema(value_type = Option<schema::Size>)]
    pub file_size: Option<Size>,
    /// Files that a process may have open at one time.
    #[serde(deserialize_with = "whole::deserialize_optional")]
    #[schema(value_type = Option<u64>, minimum = 4, maximum = 4294967295i64)]
    pub open_files: Option<u32>,
    /// Of each process.
    #[schema(value_type = Option<schema::StackSize>)]
    pub stack: Option<Size>,
    /// Of all the task's files together. Both steps have the same files: the larger one of theirs counts.
    #[schema(value_type = Option<schema::Size>)]
    pub space: Option<Size>,
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
            file_size,
            open_files,
            stack,
            space,
        } = limits;
        Limits {
            wall: wall.map(Span),
            cpu: cpu.map(Span),
            memory: memory.map(Size),
            output: output.map(Size),
            processes,
            file_size: file_size.map(Size),
            open_files,
            stack: stack.map(Size),
            space: space.map(Size),
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
            file_size,
            open_files,
            stack,
            space,
        } = limits;
        model::Limits {
            wall: wall.map(|Span(wall)| wall),
            cpu: cpu.map(|Span(cpu)| cpu),
            memory: memory.map(|Size(memory)| memory),
            output: output.map(|Size(output)| output),
            processes,
            file_size: file_size.map(|Size(file_size)| file_size),
            open_files,
            stack: stack.map(|Size(stack)| stack),
            space: space.map(|Size(space)| space),
        }
    }
}
