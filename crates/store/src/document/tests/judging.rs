//! The encoded forms of tasks with cases, of their results, and of problems.

use std::collections::BTreeMap;

use model::{
    Case, CaseName, Check, GroupScoring, JudgeProgram, JudgeProtocol, Judgement, Points, ProblemName,
    ProblemRef, StopRule, TaskFiles, TokenCheck, Tolerance, Verdict,
};

use super::*;

fn case_name(name: &str) -> CaseName {
    CaseName::new(name).unwrap()
}

fn small_case() -> Case {
    Case {
        name: case_name("1"),
        input: Content::Inline(Bytes::from_static(b"1 2")),
        answer: Some(Content::Blob(BlobHash([7; 32]))),
        args: vec![],
        files: TaskFiles::new(),
        points: Points::ONE,
        group: None,
        limits: Limits::default(),
        is_sample: false,
    }
}

fn judging(check: Check) -> Judging {
    let full = Case {
        name: case_name("secret/02 é"),
        input: Content::empty(),
        answer: None,
        args: vec!["-x".into(), String::new()],
        files: spec().source,
        points: Points::from_f64(2.5).unwrap(),
        group: Some(case_name("small")),
        limits: spec().compile.unwrap().limits,
        is_sample: true,
    };
    Judging {
        cases: vec![small_case(), full],
        check,
        stop: StopRule::FirstFailure,
        groups: BTreeMap::from([
            (case_name("small"), GroupScoring::PassAll),
            (case_name("z"), GroupScoring::Min),
        ]),
        problem: Some(ProblemRef {
            name: ProblemName::new("sum").unwrap(),
            owner: UserName::new("Ada Lovelace").unwrap(),
        }),
    }
}

fn checks() -> Vec<Check> {
    let program = |protocol| JudgeProgram {
        protocol,
        language: Some(LanguageName::new("cpp").unwrap()),
        root: Some(RootName::new("contest").unwrap()),
        source: spec().source,
        compile: spec().compile,
        execute: spec().execute,
    };
    let tokens = TokenCheck {
        case_sensitive: true,
        space_sensitive: false,
        absolute_tolerance: Tolerance::new(0.0),
        relative_tolerance: Tolerance::new(1e-6),
    };
    let bare = JudgeProgram {
        language: None,
        root: None,
        compile: None,
        ..program(JudgeProtocol::Testlib)
    };
    vec![
        Check::None,
        Check::Exact,
        Check::Lines,
        Check::Tokens(TokenCheck::default()),
        Check::Tokens(tokens),
        Check::Program(program(JudgeProtocol::Icpc)),
        Check::Program(bare),
        Check::Interactive(program(JudgeProtocol::Icpc)),
    ]
}

#[test]
fn tasks_and_problems_with_every_check_are_decoded_as_they_were_encoded() {
    for check in checks() {
        let judging = judging(check);
        let judged = TaskSpec {
            problem: Some(ProblemName::new("sum").unwrap()),
            judging: Some(judging.clone()),
            ..version_5_spec()
        };
        let encoded = encode_spec(&judged).unwrap();
        assert_eq!(u32::from(encoded[0]), TaskForm::WITH_CASES.0);
        assert_eq!(decode_spec(&encoded).unwrap(), judged);
        let limits = judged.execute.limits;
        let encoded = encode_problem(&limits, &judging).unwrap();
        assert_eq!(decode_problem(&encoded).unwrap(), (limits, judging));
    }
}

/// The judging of a single case, as it is in version 6 of a spec and in version 1 of a problem.
fn judging_bytes() -> Vec<u8> {
    [
        // The case.
        &b"\x01\x011\x00\x031 2\x01\x01"[..],
        &[7; 32],
        b"\x00\x00\xc0\x84\x3d\x00",
        &[0; 9],
        b"\x00",
        // The check by tokens, the rule, the groups and the problem.
        b"\x03\x00\x01\x00\x01",
        &1e-6_f64.to_le_bytes(),
        b"\x05never\x01\x01g\x03min\x00",
    ]
    .concat()
}

fn small_judging() -> Judging {
    Judging {
        cases: vec![small_case()],
        check: Check::Tokens(TokenCheck {
            space_sensitive: true,
            relative_tolerance: Tolerance::new(1e-6),
            ..TokenCheck::default()
        }),
        stop: StopRule::Never,
        groups: BTreeMap::from([(case_name("g"), GroupScoring::Min)]),
        problem: None,
    }
}

#[test]
fn version_6_specs_are_encoded_and_decoded() {
    let judged = TaskSpec {
        judging: Some(small_judging()),
        ..version_5_spec()
    };
    let version_6 = [&version_5_bytes()[..], b"\x01", &judging_bytes(), b"\x00"].concat();
    let version_6 = with_version(6, version_6);
    assert_eq!(encode_spec(&judged).unwrap(), version_6);
    assert_eq!(decode_spec(&version_6).unwrap(), judged);
}

#[test]
fn version_1_problems_are_encoded_and_decoded() {
    let limits = Limits {
        cpu: Some(Duration::from_secs(1)),
        ..Limits::default()
    };
    let version_1 = [&b"\x01\x00\x01\x01\x00"[..], &[0; 7], &judging_bytes()].concat();
    assert_eq!(encode_problem(&limits, &small_judging()).unwrap(), version_1);
    assert_eq!(decode_problem(&version_1).unwrap(), (limits, small_judging()));
    for bad in [&b""[..], b"\x00", &version_1[..20]] {
        let decoded = decode_problem(bad);
        assert!(matches!(decoded, Err(StoreError::Decode { .. })), "{decoded:?}");
    }
    let decoded = decode_problem(b"\x02new");
    assert!(matches!(decoded, Err(StoreError::NewerForm(_))), "{decoded:?}");
}

fn judged_result(verdict: Verdict) -> TaskResult {
    TaskResult {
        judgement: Some(Judgement {
            verdict,
            score: Points::ONE,
            max_score: Points::from_millionths(3_000_000),
            marks: vec![Verdict::Accepted, verdict, Verdict::Accepted],
            max_cpu: Duration::from_micros(1_500_001),
            max_memory: 3 << 30,
            cases: Content::Blob(BlobHash([8; 32])),
        }),
        ..result(OutcomeReason::Exited)
    }
}

#[test]
fn results_with_every_verdict_are_decoded_as_they_were_encoded() {
    for verdict in Verdict::ALL {
        let result = judged_result(verdict);
        assert_eq!(decode_result(&encode_result(&result).unwrap()).unwrap(), result);
    }
    let mut all = judged_result(Verdict::Skipped);
    let judgement = all.judgement.as_mut().unwrap();
    judgement.marks = Verdict::ALL.repeat(500);
    judgement.cases = Content::Inline(Bytes::from_static(b"results"));
    let encoded = encode_result(&all).unwrap();
    // A byte for each mark.
    assert!(encoded.len() < 500 * Verdict::ALL.len() + 500);
    assert_eq!(decode_result(&encoded).unwrap(), all);
}

#[test]
fn version_3_results_are_encoded_and_decoded() {
    let result = judged_result(Verdict::WrongAnswer);
    let version_2 = encode_result(&super::result(OutcomeReason::Exited)).unwrap();
    let version_3 = [
        b"\x03",
        &version_2[1..],
        b"\x01\x0cwrong_answer\xc0\x84\x3d\xc0\x8d\xb7\x01",
        b"\x02\x08accepted\x0cwrong_answer\x03\x00\x01\x00",
        b"\x01\xe8\xd1\xb5\xee\x01\x80\x80\x80\x80\x0c\x01",
        &[8; 32],
    ]
    .concat();
    assert_eq!(encode_result(&result).unwrap(), version_3);
    assert_eq!(decode_result(&version_3).unwrap(), result);
    // A mark without a name.
    let mut damaged = version_3;
    let mark = damaged.len() - 46;
    damaged[mark] = 2;
    let decoded = decode_result(&damaged);
    assert!(matches!(decoded, Err(StoreError::Decode { .. })), "{decoded:?}");
}
