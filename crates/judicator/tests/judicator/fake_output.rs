//! An executor that serves the output which the test gives it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::{StreamExt, stream};
use model::{
    AttemptId, ExecutorName, OutputAnswer, OutputContent, OutputRead, OutputRequest, OutputSource, SessionId,
};
use rpc::Calls;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle};

/// The output that a fake executor serves to a judicator, and what the judicator has asked for.
#[derive(Clone, Default)]
pub(crate) struct FakeOutput {
    outputs: Arc<watch::Sender<HashMap<(AttemptId, OutputSource), ServedStream>>>,
    open: Arc<Mutex<HashMap<u64, AbortHandle>>>,
    pub(crate) most_open: Arc<AtomicUsize>,
    pub(crate) bytes_sent: Arc<AtomicU64>,
}

/// One output stream of a fake executor's attempt.
#[derive(Clone, Default)]
struct ServedStream {
    bytes: Vec<u8>,
    ended: Option<bool>,
}

impl FakeOutput {
    /// Makes the attempt known, with an empty stream.
    pub(crate) fn begin(&self, attempt_id: AttemptId, source: OutputSource) {
        self.write(attempt_id, source, b"");
    }

    pub(crate) fn write(&self, attempt_id: AttemptId, source: OutputSource, bytes: &[u8]) {
        self.outputs.send_modify(|outputs| {
            let stream = outputs.entry((attempt_id, source)).or_default();
            stream.bytes.extend_from_slice(bytes);
        });
    }

    pub(crate) fn end(&self, attempt_id: AttemptId, source: OutputSource, truncated: bool) {
        self.outputs.send_modify(|outputs| {
            outputs.entry((attempt_id, source)).or_default().ended = Some(truncated);
        });
    }

    /// Serves the output at the judicator, until the returned task is aborted or the judicator ends the connection.
    pub(crate) async fn connect(
        &self,
        judicator: &dyn Calls,
        executor: &ExecutorName,
        session: SessionId,
    ) -> JoinHandle<()> {
        let (answers, mut receiver) = mpsc::unbounded_channel();
        let answer_stream = stream::poll_fn(move |context| receiver.poll_recv(context)).boxed();
        let requests = judicator
            .serve_output(executor.clone(), session, answer_stream)
            .await;
        let (server, mut requests) = (self.clone(), requests.unwrap());
        tokio::spawn(async move {
            while let Some(request) = requests.next().await {
                match request.unwrap() {
                    OutputRequest::Read(read) => server.on_read(read, answers.clone()),
                    OutputRequest::Stop { id } => {
                        if let Some(open) = server.open.lock().unwrap().remove(&id) {
                            open.abort();
                        }
                    }
                }
            }
        })
    }

    pub(crate) fn open_reads(&self) -> usize {
        self.open.lock().unwrap().len()
    }

    fn on_read(&self, read: OutputRead, answers: mpsc::UnboundedSender<OutputAnswer>) {
        let server = self.clone();
        let mut open = self.open.lock().unwrap();
        let answering = tokio::spawn(async move {
            let content = server.content(read).await;
            if let OutputContent::Bytes(bytes) = &content {
                server.bytes_sent.fetch_add(bytes.len() as u64, Ordering::SeqCst);
            }
            server.open.lock().unwrap().remove(&read.id);
            let _ = answers.send(OutputAnswer { id: read.id, content });
        });
        open.insert(read.id, answering.abort_handle());
        self.most_open.fetch_max(open.len(), Ordering::SeqCst);
    }

    async fn content(&self, read: OutputRead) -> OutputContent {
        let key = (read.attempt_id, read.at.source);
        let offset = usize::try_from(read.at.offset).unwrap();
        let mut outputs = self.outputs.subscribe();
        let is_ready = |outputs: &HashMap<_, ServedStream>| match outputs.get(&key) {
            Some(stream) => stream.bytes.len() > offset || stream.ended.is_some(),
            None => true,
        };
        let outputs = outputs.wait_for(is_ready).await.unwrap();
        match outputs.get(&key) {
            None => OutputContent::Unknown,
            Some(stream) => match stream.bytes.get(offset..).unwrap_or_default() {
                [] => OutputContent::Ended {
                    truncated: stream.ended.unwrap(),
                },
                bytes => {
                    let length = bytes.len().min(OutputRead::MAX_BYTES);
                    OutputContent::Bytes(Bytes::copy_from_slice(&bytes[..length]))
                }
            },
        }
    }
}
