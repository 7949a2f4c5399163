//! Converts values of the model to and from SQL values.

use model::{
    AttemptNumber, AttemptRecord, BlobHash, ExecutorName, GroupName, Labels, OutcomeReason, ReportSeq,
    SessionId, StoreAge, TaskForm, TaskId, TaskStatus, ToolRequirement, UnixTime, UserName,
};
use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use uuid::Uuid;

use crate::document::{decode_attempts, decode_labels};

/// A wrapper with which rusqlite binds a value of `model` as a SQL parameter and reads it from a column.
#[derive(Clone, Copy, Debug)]
pub(super) struct SqlValue<T>(pub(super) T);

/// The stored form of a status: a number, because it is part of an index. These numbers must never change.
fn status_code(status: TaskStatus) -> i64 {
    match status {
        TaskStatus::Pending => 1,
        TaskStatus::Compiling => 2,
        TaskStatus::Running => 3,
        TaskStatus::Retrying => 4,
        TaskStatus::Success => 5,
        TaskStatus::CompileFailed => 6,
        TaskStatus::RunFailed => 7,
        TaskStatus::Cancelled => 8,
        TaskStatus::SystemError => 9,
    }
}

impl ToSql for SqlValue<TaskStatus> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(status_code(self.0)))
    }
}

impl FromSql for SqlValue<TaskStatus> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let found = value.as_i64()?;
        let status = TaskStatus::ALL
            .into_iter()
            .find(|status| status_code(*status) == found);
        status.map(SqlValue).ok_or(FromSqlError::OutOfRange(found))
    }
}

macro_rules! blob_value {
    ($($name:ty, $bytes:expr, $make:expr;)*) => {$(
        impl ToSql for SqlValue<$name> {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                let bytes: fn(&$name) -> &[u8] = $bytes;
                Ok(ToSqlOutput::Borrowed(ValueRef::Blob(bytes(&self.0))))
            }
        }

        impl FromSql for SqlValue<$name> {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                let bytes = value.as_blob()?;
                let exact = bytes.try_into().map_err(|_| FromSqlError::InvalidBlobSize {
                    expected_size: size_of::<$name>(),
                    blob_size: bytes.len(),
                })?;
                Ok(SqlValue($make(exact)))
            }
        }
    )*};
}

blob_value! {
    TaskId, |id| id.0.as_bytes(), |bytes| TaskId(Uuid::from_bytes(bytes));
    SessionId, |id| id.0.as_bytes(), |bytes| SessionId(Uuid::from_bytes(bytes));
    BlobHash, |hash| &hash.0, BlobHash;
}

macro_rules! name_value {
    ($($name:ident),*) => {$(
        impl ToSql for SqlValue<&$name> {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(ToSqlOutput::from(self.0.as_str()))
            }
        }

        impl FromSql for SqlValue<$name> {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                $name::new(value.as_str()?).map(SqlValue).map_err(|error| FromSqlError::Other(error.into()))
            }
        }
    )*};
}

name_value!(UserName, ExecutorName, GroupName);

impl ToSql for SqlValue<OutcomeReason> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(self.0.as_str()))
    }
}

impl FromSql for SqlValue<OutcomeReason> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let reason = value.as_str()?.parse().map(SqlValue);
        reason.map_err(|error: String| FromSqlError::Other(error.into()))
    }
}

impl ToSql for SqlValue<TaskForm> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(self.0.0))
    }
}

impl FromSql for SqlValue<TaskForm> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        u32::column_result(value).map(TaskForm).map(SqlValue)
    }
}

/// The column is empty if the task needs nothing.
impl FromSql for SqlValue<ToolRequirement> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_str()? {
            "" => Ok(SqlValue(ToolRequirement::default())),
            key => key
                .parse()
                .map(SqlValue)
                .map_err(|error: model::NameError| FromSqlError::Other(error.into())),
        }
    }
}

/// The column is null if there are none.
impl FromSql for SqlValue<Labels> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let labels = value.as_blob_or_null()?.map(decode_labels).transpose();
        let labels = labels.map_err(|error| FromSqlError::Other(error.into()))?;
        Ok(SqlValue(labels.unwrap_or_default()))
    }
}

/// The column is null if there are none.
impl FromSql for SqlValue<Vec<AttemptRecord>> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let attempts = value.as_blob_or_null()?.map(decode_attempts).transpose();
        let attempts = attempts.map_err(|error| FromSqlError::Other(error.into()))?;
        Ok(SqlValue(attempts.unwrap_or_default()))
    }
}

impl ToSql for SqlValue<UnixTime> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(self.0.0))
    }
}

impl FromSql for SqlValue<UnixTime> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_i64().map(UnixTime).map(SqlValue)
    }
}

impl ToSql for SqlValue<StoreAge> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(self.0.0))
    }
}

impl ToSql for SqlValue<AttemptNumber> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(self.0.0))
    }
}

impl FromSql for SqlValue<AttemptNumber> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        u32::column_result(value).map(AttemptNumber).map(SqlValue)
    }
}

impl ToSql for SqlValue<ReportSeq> {
    /// SQLite's integers are signed. No session sends that many reports.
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(i64::try_from(self.0.0).unwrap_or(i64::MAX)))
    }
}

impl FromSql for SqlValue<ReportSeq> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let seq = value.as_i64()?;
        u64::try_from(seq)
            .map(ReportSeq)
            .map(SqlValue)
            .map_err(|_| FromSqlError::OutOfRange(seq))
    }
}
