use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use super::*;
use crate::outcome::{CapturedStream, CommandEndReason};

fn outcome(bytes: Vec<u8>) -> CommandOutcome {
    CommandOutcome {
        reason: CommandEndReason::Exited,
        exit_code: Some(0),
        signal: None,
        wall: std::time::Duration::from_millis(3),
        cpu: std::time::Duration::ZERO,
        memory: 7,
        stdout: CapturedStream {
            bytes,
            truncated: true,
        },
        stderr: CapturedStream::default(),
    }
}

#[test]
fn frames_of_any_size_arrive_whole() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let sizes = [0, 1, 4096, 16 << 10, (128 << 10) + 1, 3 << 20];
    let sender = std::thread::spawn(move || {
        let mut buffer = Vec::new();
        for size in sizes {
            send(
                &theirs,
                &WardenResponse::Ended(outcome(vec![0xfe; size])),
                &mut buffer,
            )
            .unwrap();
        }
    });
    let mut buffer = Vec::new();
    for size in sizes {
        // The next frame may already be in the socket; `receive` must not read it.
        let frame: Option<WardenResponse> = receive(&ours, &mut buffer).unwrap();
        let Some(WardenResponse::Ended(received)) = frame else {
            panic!("got {frame:?}")
        };
        assert_eq!(received, outcome(vec![0xfe; size]));
        assert!(
            buffer.capacity() <= 1 << 20,
            "a large frame's memory is given back"
        );
    }
    sender.join().unwrap();
    assert!(receive::<WardenResponse>(&ours, &mut buffer).unwrap().is_none());
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
        UrgentMessage::Kill { number: u64::MAX },
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
