//! The resource limits of a step in JSON.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::object::impl_json_objects;
use crate::{ByteSize, HumanDuration, limit_value, schema};

/// The resource limits of a step. In a request, a limit that is left out, null or `"none"` is the operator's default. A
/// response contains the limits that apply; a limit that does not exist is `"none"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct Limits {
    /// Wall clock time from start to end.
    #[serde(with = "limit_value")]
    #[schema(value_type = Option<schema::Duration>)]
    pub wall: Option<HumanDuration>,
    /// CPU time of all processes of the step together.
    #[serde(with = "limit_value")]
    #[schema(value_type = Option<schema::Duration>)]
    pub cpu: Option<HumanDuration>,
    /// Memory of all processes of the step together.
    #[serde(with = "limit_value")]
    #[schema(value_type = Option<schema::Size>)]
    pub memory: Option<ByteSize>,
    /// Bytes on each of stdout and stderr. A step that writes more is ended.
    #[serde(with = "limit_value")]
    #[schema(value_type = Option<schema::Size>)]
    pub output: Option<ByteSize>,
    /// Processes and threads at one time.
    #[serde(with = "limit_value")]
    #[schema(value_type = Option<schema::ProcessCount>)]
    pub processes: Option<u32>,
    /// Size of the largest file that the step may write. A process that writes more is killed.
    #[serde(with = "limit_value")]
    #[schema(value_type = Option<schema::Size>)]
    pub file_size: Option<ByteSize>,
    /// Files that a process may have open at one time.
    #[serde(with = "limit_value")]
    #[schema(value_type = Option<schema::OpenFileCount>)]
    pub open_files: Option<u32>,
    /// Stack size of each process.
    #[serde(with = "limit_value")]
    #[schema(value_type = Option<schema::StackSize>)]
    pub stack: Option<ByteSize>,
    /// Size of all the task's files together. Both steps share these files, so the larger limit of the two applies.
    #[serde(with = "limit_value")]
    #[schema(value_type = Option<schema::Size>)]
    pub space: Option<ByteSize>,
}

impl_json_objects! {
    Limits: "limits as a JSON object";
}

impl Limits {
    /// Whether there are none.
    pub(crate) fn is_default(&self) -> bool {
        *self == Limits::default()
    }
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
            wall: wall.map(HumanDuration),
            cpu: cpu.map(HumanDuration),
            memory: memory.map(ByteSize),
            output: output.map(ByteSize),
            processes,
            file_size: file_size.map(ByteSize),
            open_files,
            stack: stack.map(ByteSize),
            space: space.map(ByteSize),
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
            wall: wall.map(|HumanDuration(wall)| wall),
            cpu: cpu.map(|HumanDuration(cpu)| cpu),
            memory: memory.map(|ByteSize(memory)| memory),
            output: output.map(|ByteSize(output)| output),
            processes,
            file_size: file_size.map(|ByteSize(file_size)| file_size),
            open_files,
            stack: stack.map(|ByteSize(stack)| stack),
            space: space.map(|ByteSize(space)| space),
        }
    }
}
