use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use super::*;
use crate::passed_streams::PassedStreams;
use crate::spec::{CommandInput, CommandLimits};

fn request(input: Vec<u8>) -> WardenRequest {
    WardenRequest::Run {
        number: 7,
        spec: CommandSpec {
            argv: vec!["cat".into()],
            env: Vec::new(),
            directory: "/".into(),
            input: CommandInput::Bytes(input),
            limits: CommandLimits::default(),
            max_captured_bytes: u64::MAX,
            network: None,
        },
        attachments: PassedStreams::default().attachments(),
        after: AfterRun::KeepTask,
    }
}

#[test]
fn frames_of_any_size_arrive_whole() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let sizes = [0, 1, 4096, 16 << 10, (128 << 10) + 1, 3 << 20];
    let sender = std::thread::spawn(move || {
        let mut buffer = Vec::new();
        for size in sizes {
            send(&theirs, &request(vec![0xfe; size]), &mut buffer).unwrap();
        }
    });
    let mut buffer = Vec::new();
    for size in sizes {
        // The next frame may already be in the socket; `receive` must not read it.
        let frame: Option<WardenRequest> = receive(&ours, &mut buffer).unwrap();
        let received = frame.map(|frame| format!("{frame:?}"));
        assert_eq!(received, Some(format!("{:?}", request(vec![0xfe; size]))));
        assert!(
            buffer.capacity() <= 1 << 20,
            "a large frame's memory is given back"
        );
    }
    sender.join().unwrap();
    assert!(receive::<WardenRequest>(&ours, &mut buffer).unwrap().is_none());
}

#[test]
fn an_incomplete_or_invalid_frame_is_an_error() {
    fn check(sent: &[u8], expected: io::ErrorKind) {
        let error = receive::<WardenResponse>(sent, &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), expected, "{error}");
    }
    check(&[3, 0], io::ErrorKind::UnexpectedEof);
    check(&[3, 0, 0, 0, 1], io::ErrorKind::UnexpectedEof);
    check(&[0xff; 8], io::ErrorKind::InvalidData);
    check(&[1, 0, 0, 0, 0x7f], io::ErrorKind::Other);
}

#[test]
fn urgent_messages_neither_block_nor_merge() {
    let (ours, theirs) = urgent_pair().unwrap();
    assert_eq!(receive_urgent(theirs.as_fd()).unwrap(), None);
    let messages = [
        UrgentMessage::Kill {
            number: u64::MAX,
            reason: CommandEndReason::Abandoned,
        },
        UrgentMessage::KeepAliveUntil { millis: u64::MAX },
    ];
    for message in messages {
        send_urgent(ours.as_fd(), message).unwrap();
    }
    for message in messages {
        assert_eq!(receive_urgent(theirs.as_fd()).unwrap(), Some(message));
    }
    let full = std::iter::repeat_with(|| send_urgent(ours.as_fd(), messages[0]))
        .find_map(Result::err)
        .unwrap();
    assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
    drop(theirs);
    let gone = send_urgent(ours.as_fd(), messages[0]).unwrap_err();
    assert_ne!(gone.kind(), io::ErrorKind::WouldBlock);
}
