//! The model's values as columns.

use model::{Age, Attempt, BlobHash, ExecutorName, Moment, Seq, SessionId, Status, TaskId, UserName};
use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use uuid::Uuid;

/// A value of the model on its way into or out of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column<T>(pub(super) T);

/// A number rather than a name, for it is in an index; fixed for good, whatever order the model lists.
fn code(status: Status) -> i64 {
    match status {
        Status::Pending => 1,
        Status::Compiling => 2,
        Status::Running => 3,
        Status::Retrying => 4,
        Status::Success => 5,
        Status::CompileFailed => 6,
        Status::RunFailed => 7,
        Status::Cancelled => 8,
        Status::SystemError => 9,
    }
}

impl ToSql for Column<Status> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(code(self.0)))
    }
}

impl FromSql for Column<Status> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let found = value.as_i64()?;
        let status = Status::ALL.into_iter().find(|status| code(*status) == found);
        status.map(Column).ok_or(FromSqlError::OutOfRange(found))
    }
}

macro_rules! blob_column {
    ($($name:ty, $bytes:expr, $make:expr;)*) => {$(
        impl ToSql for Column<$name> {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                let bytes: fn(&$name) -> &[u8] = $bytes;
                Ok(ToSqlOutput::Borrowed(ValueRef::Blob(bytes(&self.0))))
            }
        }

        impl FromSql for Column<$name> {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                let bytes = value.as_blob()?;
                let exact = bytes.try_into().map_err(|_| FromSqlError::InvalidBlobSize {
                    expected_size: size_of::<$name>(),
                    blob_size: bytes.len(),
                })?;
                Ok(Column($make(exact)))
            }
        }
    )*};
}

blob_column! {
    TaskId, |id| id.0.as_bytes(), |bytes| TaskId(Uuid::from_bytes(bytes));
    SessionId, |id| id.0.as_bytes(), |bytes| SessionId(Uuid::from_bytes(bytes));
    BlobHash, |hash| &hash.0, BlobHash;
}

macro_rules! name_column {
    ($($name:ident),*) => {$(
        impl ToSql for Column<&$name> {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(ToSqlOutput::from(self.0.as_str()))
            }
        }

        impl FromSql for Column<$name> {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                $name::new(value.as_str()?).map(Column).map_err(|error| FromSqlError::Other(error.into()))
            }
        }
    )*};
}

name_column!(UserName, ExecutorName);

impl ToSql for Column<Moment> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(self.0.0))
    }
}

impl FromSql for Column<Moment> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_i64().map(Moment).map(Column)
    }
}

impl ToSql for Column<Age> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(self.0.0))
    }
}

impl ToSql for Column<Attempt> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(self.0.0))
    }
}

impl FromSql for Column<Attempt> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        u32::column_result(value).map(Attempt).map(Column)
    }
}

impl ToSql for Column<Seq> {
    /// SQLite's numbers are signed. No session lives long enough to count that far.
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(i64::try_from(self.0.0).unwrap_or(i64::MAX)))
    }
}

impl FromSql for Column<Seq> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let seq = value.as_i64()?;
        u64::try_from(seq)
            .map(Seq)
            .map(Column)
            .map_err(|_| FromSqlError::OutOfRange(seq))
    }
}
