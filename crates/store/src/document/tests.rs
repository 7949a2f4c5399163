use std::time::Duration;

use ::bytes::Bytes;
use model::{
    AttemptNumber, BlobHash, CapturedOutput, CompileStep, Content, ExecuteStep, ExecutorName, FilesLeftOut,
    GroupName, KeepPattern, KeptFile, LanguageName, LeftOutReason, Limits, NetworkName, OfferedLanguage,
    OfferedRoot, Outcome, OutcomeReason, RecordedEnd, RootName, StepCommand, TaskFile, TaskId, UnixTime,
    UserName, WorkspacePath,
};

use super::*;

mod judging;

fn spec() -> TaskSpec {
    let limits = Limits {
        wall: Some(Duration::from_millis(1500)),
        cpu: None,
        memory: Some(u64::MAX),
        output: Some(0),
        processes: Some(7),
        file_size: Some(1 << 40),
        open_files: Some(u32::MAX),
        stack: Some(8 << 20),
        space: Some(3),
    };
    let file = |content| TaskFile {
        content,
        executable: true,
    };
    TaskSpec {
        user: UserName::new("Ada Lovelace").unwrap(),
        priority: -3,
        language: None,
        root: None,
        compile: Some(CompileStep {
            command: StepCommand::Argv(vec!["cc".into(), "a b".into()]),
            env: [("B".to_string(), "2".to_string())].into(),
            network: Some(NetworkName::new("lab").unwrap()),
            limits,
        }),
        execute: ExecuteStep {
            command: StepCommand::Shell("./a.out < x".into()),
            args: vec!["é".into(), String::new()],
            env: [("A".to_string(), "1".to_string())].into(),
            input: Content::Blob(BlobHash([9; 32])),
            network: None,
            limits: Limits {
                stack: Some(1 << 20),
                ..Limits::default()
            },
        },
        source: [(
            WorkspacePath::new("a/b.c").unwrap(),
            file(Content::Inline(Bytes::from_static(&[0, 255, 7]))),
        )]
        .into(),
        data: [(
            WorkspacePath::new("in").unwrap(),
            file(Content::Blob(BlobHash([1; 32]))),
        )]
        .into(),
        judging: None,
        problem: None,
        keep: vec![
            KeepPattern::new("out/*.csv").unwrap(),
            KeepPattern::new("**").unwrap(),
        ],
        labels: labels(),
        group: Some(GroupName::new("sweep 1").unwrap()),
        attempts: Some(300),
        retry_of: Some(TaskId(uuid::Uuid::from_bytes([3; 16]))),
    }
}

fn labels() -> Labels {
    let pairs = [("hw", "3"), ("term", "")].map(|(key, value)| (key.to_string(), value.to_string()));
    Labels::new(pairs.into()).unwrap()
}

#[test]
fn specs_are_decoded_as_they_were_encoded() {
    let spec = spec();
    assert_eq!(decode_spec(&encode_spec(&spec).unwrap()).unwrap(), spec);
    let plain = TaskSpec {
        compile: None,
        execute: ExecuteStep {
            network: Some(NetworkName::new("loopback").unwrap()),
            ..spec.execute.clone()
        },
        ..spec
    };
    assert_eq!(decode_spec(&encode_spec(&plain).unwrap()).unwrap(), plain);
}

/// The spec as version 3 decodes it.
fn version_3_spec() -> TaskSpec {
    TaskSpec {
        keep: vec![],
        labels: Labels::default(),
        group: None,
        attempts: None,
        retry_of: None,
        ..spec()
    }
}

/// The spec that versions 1 and 2 decode to: their compile step has the environment of the execute step.
fn old_spec() -> TaskSpec {
    let mut spec = version_3_spec();
    let env = spec.execute.env.clone();
    spec.compile.iter_mut().for_each(|step| step.env = env.clone());
    spec
}

/// The bytes after the version byte of version 1, with which all later versions begin.
fn version_1_bytes() -> Vec<u8> {
    [
        &b"\x0cAda Lovelace\x05\x01\x01\x02\x02cc\x03a b"[..],
        b"\x01\x01\x80\xca\xb5\xee\x01\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01\x00\x01\x07",
        b"\x00\x0b./a.out < x\x02\x02\xc3\xa9\x00\x01\x01A\x011\x01",
        &[9; 32],
        b"\x00\x00\x00\x00\x00",
        b"\x01\x05a/b.c\x01\x00\x03\x00\xff\x07",
        b"\x01\x02in\x01\x01",
        &[1; 32],
    ]
    .concat()
}

fn version_2_bytes() -> Vec<u8> {
    [
        &version_1_bytes()[..],
        b"\x01\x03lab\x01\x80\x80\x80\x80\x80\x20\x01\xff\xff\xff\xff\x0f\x01\x80\x80\x80\x04\x01\x03",
        b"\x00\x00\x00\x01\x80\x80\x40\x00",
    ]
    .concat()
}

fn version_3_bytes() -> Vec<u8> {
    [&version_2_bytes()[..], b"\x01\x01B\x012"].concat()
}

fn version_4_bytes() -> Vec<u8> {
    [
        &version_3_bytes()[..],
        b"\x02\x09out/*.csv\x02**\x02\x02hw\x013\x04term\x00\x01\x07sweep 1\x01\xac\x02\x01",
        &[3; 16],
    ]
    .concat()
}

fn with_version(version: u8, rest: Vec<u8>) -> Vec<u8> {
    [vec![version], rest].concat()
}

#[test]
fn version_4_specs_are_encoded_and_decoded() {
    let version_4 = with_version(4, version_4_bytes());
    assert_eq!(encode_spec(&spec()).unwrap(), version_4);
    assert_eq!(decode_spec(&version_4).unwrap(), spec());
}

fn version_5_bytes() -> Vec<u8> {
    [&version_4_bytes()[..], b"\x01\x03cpp\x01\x07contest"].concat()
}

fn version_5_spec() -> TaskSpec {
    TaskSpec {
        language: Some(LanguageName::new("cpp").unwrap()),
        root: Some(RootName::new("contest").unwrap()),
        ..spec()
    }
}

#[test]
fn version_5_specs_are_encoded_and_decoded() {
    let version_5 = with_version(5, version_5_bytes());
    assert_eq!(encode_spec(&version_5_spec()).unwrap(), version_5);
    let only_language = TaskSpec {
        root: None,
        ..version_5_spec()
    };
    let encoded = encode_spec(&only_language).unwrap();
    assert_eq!(decode_spec(&encoded).unwrap(), only_language);
    let only_root = TaskSpec {
        language: None,
        ..version_5_spec()
    };
    assert_eq!(decode_spec(&encode_spec(&only_root).unwrap()).unwrap(), only_root);
}

/// With the feature `next-form` of the model there is a made-up version 7, with the body of version 6.
#[test]
fn specs_of_all_known_forms_are_decoded() {
    for form in TaskForm::CURRENT.0..=TaskForm::NEWEST.0 {
        // Without cases and without a problem.
        let body = [&version_5_bytes()[..], b"\x00\x00"].concat();
        let document = with_version(u8::try_from(form).unwrap(), body);
        assert_eq!(decode_spec(&document).unwrap(), version_5_spec());
    }
}

#[test]
fn tools_are_encoded_and_decoded() {
    let language = |root: Option<&str>, name, version: Option<&str>| OfferedLanguage {
        root: root.map(|root| RootName::new(root).unwrap()),
        name: LanguageName::new(name).unwrap(),
        version: version.map(Into::into),
    };
    let root = |name, sha256| OfferedRoot {
        name: RootName::new(name).unwrap(),
        sha256,
    };
    let tools = ExecutorTools::new(
        vec![
            language(None, "c", Some("12.2")),
            language(Some("lab"), "r", None),
        ],
        vec![root("lab", Some(BlobHash([4; 32]))), root("web", None)],
    );
    let version_1 = [
        &b"\x01\x02\x00\x01c\x01\x0412.2\x01\x03lab\x01r\x00\x02\x03lab\x01"[..],
        &[4; 32],
        b"\x03web\x00",
    ]
    .concat();
    assert_eq!(encode_tools(&tools).unwrap(), version_1);
    assert_eq!(decode_tools(&version_1).unwrap(), tools);
    assert_eq!(decode_tools(b"\x02new").unwrap(), ExecutorTools::default());
    for bad in [&b""[..], b"\x00", &version_1[..9]] {
        let decoded = decode_tools(bad);
        assert!(matches!(decoded, Err(StoreError::Decode { .. })), "{decoded:?}");
    }
}

#[test]
fn version_3_specs_are_still_decoded() {
    let version_3 = with_version(3, version_3_bytes());
    assert_eq!(decode_spec(&version_3).unwrap(), version_3_spec());
}

#[test]
fn version_2_specs_are_still_decoded() {
    let version_2 = with_version(2, version_2_bytes());
    assert_eq!(decode_spec(&version_2).unwrap(), old_spec());
}

#[test]
fn version_1_specs_are_still_decoded() {
    let mut old = old_spec();
    let limits = old.compile.iter_mut().map(|step| {
        step.network = None;
        &mut step.limits
    });
    for limits in limits.chain([&mut old.execute.limits]) {
        *limits = Limits {
            file_size: None,
            open_files: None,
            stack: None,
            space: None,
            ..*limits
        };
    }
    assert_eq!(decode_spec(&with_version(1, version_1_bytes())).unwrap(), old);
}

fn result(reason: OutcomeReason) -> TaskResult {
    TaskResult {
        compile: None,
        execute: Some(Outcome {
            reason,
            exit_code: Some(-1),
            signal: None,
            wall: Duration::from_nanos(1),
            cpu: Duration::new(3, 0),
            memory: 1 << 40,
            stdout: CapturedOutput {
                head: Bytes::from_static(b"xyz"),
                size: 70_000,
                blob: Some(BlobHash([5; 32])),
                truncated: true,
            },
            stderr: CapturedOutput::small("e"),
        }),
        files: vec![KeptFile {
            path: WorkspacePath::new("out/a").unwrap(),
            size: 300,
            blob: BlobHash([6; 32]),
            executable: true,
        }],
        files_left_out: FilesLeftOut {
            count: 2,
            bytes: 128,
            why: Some(LeftOutReason::TooLarge),
        },
        judgement: None,
    }
}

#[test]
fn results_are_decoded_as_they_were_encoded() {
    for reason in OutcomeReason::ALL {
        let result = result(reason);
        assert_eq!(decode_result(&encode_result(&result).unwrap()).unwrap(), result);
    }
    for why in LeftOutReason::ALL {
        let mut result = result(OutcomeReason::Exited);
        result.files_left_out.why = Some(why);
        assert_eq!(decode_result(&encode_result(&result).unwrap()).unwrap(), result);
    }
}

/// The reason, exit code, times and memory, with which both versions of an outcome begin.
const OUTCOME_BYTES: &[u8] = b"\x00\x01\x0atime_limit\x01\x01\x00\x00\x01\x03\x00\x80\x80\x80\x80\x80\x20";

#[test]
fn version_2_results_are_encoded_and_decoded() {
    let version_2 = [
        &b"\x02"[..],
        OUTCOME_BYTES,
        b"\x03xyz\xf0\xa2\x04\x01",
        &[5; 32],
        b"\x01\x01e\x01\x00\x00",
        b"\x01\x05out/a\xac\x02",
        &[6; 32],
        b"\x01\x02\x80\x01\x01\x09too_large",
    ]
    .concat();
    let result = result(OutcomeReason::TimeLimit);
    assert_eq!(encode_result(&result).unwrap(), version_2);
    assert_eq!(decode_result(&version_2).unwrap(), result);
}

#[test]
fn version_1_results_are_still_decoded() {
    let long = vec![b'x'; CapturedOutput::MAX_HEAD + 1];
    let version_1 = [
        &b"\x01"[..],
        OUTCOME_BYTES,
        b"\x81\x80\x04",
        &long,
        b"\x01\x01e\x00",
    ]
    .concat();
    let mut expected = result(OutcomeReason::TimeLimit);
    expected.files.clear();
    expected.files_left_out = FilesLeftOut::default();
    expected.execute.as_mut().unwrap().stdout = CapturedOutput {
        truncated: true,
        ..CapturedOutput::small(long)
    };
    assert_eq!(decode_result(&version_1).unwrap(), expected);
}

#[test]
fn attempts_and_labels_are_encoded_and_decoded() {
    let attempt = |end| AttemptRecord {
        executor: ExecutorName::new("e-1").unwrap(),
        attempt: AttemptNumber(300),
        start_time: UnixTime(-1),
        end,
    };
    let ends = RecordedEnd::ALL.map(|end| attempt(Some((UnixTime(7), end))));
    let attempts = [&ends[..], &[attempt(None)]].concat();
    assert_eq!(
        decode_attempts(&encode_attempts(&attempts).unwrap()).unwrap(),
        attempts
    );
    assert_eq!(
        encode_attempts(&[attempt(Some((UnixTime(7), RecordedEnd::GivenBack)))]).unwrap(),
        b"\x01\x01\x03e-1\xac\x02\x01\x01\x0e\x0agiven_back"
    );
    let encoded = encode_labels(&labels()).unwrap();
    assert_eq!(encoded, b"\x01\x02\x02hw\x013\x04term\x00");
    assert_eq!(decode_labels(&encoded).unwrap(), labels());
}

#[test]
fn damaged_documents_are_errors() {
    let good = encode_spec(&spec()).unwrap();
    let mut without_version = good.clone();
    without_version[0] = 0;
    for bad in [&[][..], &good[..1], &good[..good.len() - 1], &without_version] {
        let decoded = decode_spec(bad);
        assert!(matches!(decoded, Err(StoreError::Decode { .. })), "{decoded:?}");
    }
    for decoded in [decode_result(&[]).map(drop), decode_attempts(b"\x02").map(drop)] {
        assert!(matches!(decoded, Err(StoreError::Decode { .. })), "{decoded:?}");
    }
}

#[test]
fn newer_versions_are_left_to_newer_nodes() {
    let newest = TaskForm::NEWEST.0;
    let mut spec = encode_spec(&spec()).unwrap();
    spec[0] = u8::try_from(newest).unwrap() + 2;
    let decoded = decode_spec(&spec);
    assert!(
        matches!(decoded, Err(StoreError::NewerForm(TaskForm(form))) if form == newest + 2),
        "{decoded:?}"
    );
    let mut result = encode_result(&result(OutcomeReason::Exited)).unwrap();
    result[0] = NEWEST_RESULT_VERSION + 1;
    let decoded = decode_result(&result);
    assert!(
        matches!(decoded, Err(StoreError::NewerForm(TaskForm(form))) if form == newest + 1),
        "{decoded:?}"
    );
}
