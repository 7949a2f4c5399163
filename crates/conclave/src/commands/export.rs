//! `conclave export`: writes the results of many tasks as CSV or JSON Lines, one row for each task.

use std::fs::Permissions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use api::{ExportedTask, HttpClient, TaskSummary};
use clap::ValueEnum;
use futures::{StreamExt, TryStreamExt};
use model::{SortOrder, TaskQuery};

use crate::args::{ClientFlags, TaskFilterFlags};
use crate::print::{OutputFormat, print_message};

/// The arguments of `conclave export`.
#[derive(clap::Args, Debug)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    filter: TaskFilterFlags,
    /// Format of the rows
    #[arg(long, value_enum, default_value_t = ExportFormat::Csv, conflicts_with = "json")]
    format: ExportFormat,
    /// Also tasks that were retried, which other tasks repeat
    #[arg(long)]
    retried: bool,
    /// File to write, which is replaced when the export is complete; by default stdout
    #[arg(long, short = 'o', value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// The format in which `conclave export` writes tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    Csv,
    Jsonl,
}

/// Tasks that are asked for at the same time.
const CONCURRENT_REQUESTS: usize = 8;
const PAGE: usize = 200;

pub(crate) async fn run(args: ExportArgs) -> Result<ExitCode> {
    let client = args.client.connect()?;
    let format = match args.client.output_format() {
        OutputFormat::Json => ExportFormat::Jsonl,
        OutputFormat::Text => args.format,
    };
    let query = TaskQuery {
        retried: (!args.retried).then_some(false),
        // Tasks that are added during the export come at the end.
        order: SortOrder::Oldest,
        limit: PAGE,
        ..args.filter.query()?
    };
    let count = match &args.output {
        None => export(query, format, BufWriter::new(io::stdout()), &client).await?,
        Some(path) => export_to_file(query, format, path, &client).await?,
    };
    match count {
        0 => print_message("No matching tasks."),
        count => print_message(format_args!("exported {count} tasks")),
    }
    Ok(ExitCode::SUCCESS)
}

/// A file that exists is replaced at the end, so that an interrupted export does not look complete.
async fn export_to_file(
    query: TaskQuery,
    format: ExportFormat,
    path: &Path,
    client: &HttpClient,
) -> Result<u64> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(parent)
        .with_context(|| format!("could not create a file in {}", parent.display()))?;
    let count = export(query, format, BufWriter::new(file.as_file_mut()), client).await?;
    file.persist(path)
        .with_context(|| format!("could not write {}", path.display()))?;
    Ok(count)
}

/// Writes the matching tasks page by page, in the order in which they were added. Returns their number.
async fn export(
    mut query: TaskQuery,
    format: ExportFormat,
    mut out: impl Write,
    client: &HttpClient,
) -> Result<u64> {
    if format == ExportFormat::Csv {
        write!(out, "{}", ExportedTask::csv_heading())?;
    }
    let mut count = 0;
    loop {
        let page = client.search(&query).await?;
        let mut tasks = futures::stream::iter(page.tasks)
            .map(|summary| read_task(summary, client))
            .buffered(CONCURRENT_REQUESTS);
        while let Some(task) = tasks.try_next().await? {
            match format {
                ExportFormat::Csv => write!(out, "{}", task.to_csv_row())?,
                ExportFormat::Jsonl => writeln!(out, "{}", serde_json::to_string(&task)?)?,
            }
            count += 1;
        }
        out.flush()?;
        query.after = page.next;
        if query.after.is_none() {
            return Ok(count);
        }
    }
}

async fn read_task(summary: TaskSummary, client: &HttpClient) -> Result<ExportedTask> {
    match client.get(summary.id, None).await {
        Ok(task) => Ok(ExportedTask::from(task)),
        // The task was removed after the page was read.
        Err(error) if error.problem().is_some_and(|problem| problem.status == 404) => {
            Ok(ExportedTask::from(summary))
        }
        Err(error) => Err(error.into()),
    }
}
