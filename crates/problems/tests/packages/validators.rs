//! Output validators: one file, a folder, or a program that builds itself.

use model::{Check, JudgeProtocol, StepCommand, TaskFiles};
use problems::PackageCheck;

use crate::fixtures::{PackageFixture, program};

const CUSTOM: &str =
    "validation: custom\nvalidator_flags: -x 3\nlimits:\n  validation_time: 10\n  validation_memory: 64\n";

#[test]
fn a_validator_may_be_a_file_or_a_folder() {
    for (files, paths) in [
        (&["output_validators/v.cpp"][..], &["v.cpp"][..]),
        (
            &["output_validators/v/v.cpp", "output_validators/v/lib/x.h"],
            &["lib/x.h", "v.cpp"],
        ),
        (
            &["output_validators/v.cpp", "output_validators/x.h"],
            &["v.cpp", "x.h"],
        ),
        (
            &["output_validators/v.cpp", "output_validators/include/x.h"],
            &["include/x.h", "v.cpp"],
        ),
    ] {
        let package = files.iter().fold(PackageFixture::new(CUSTOM), |package, path| {
            package.write(path, "")
        });
        let package = package.read_clean();
        assert!(matches!(package.check, PackageCheck::Program(_)));
        let found = program(&package);
        assert_eq!(found.language.as_ref().unwrap().as_str(), "cpp");
        assert_eq!(found.args, ["-x", "3"]);
        assert_eq!((&found.build, &found.run), (&None, &StepCommand::of_language()));
        let found: Vec<_> = found.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(found, paths);
    }
}

#[test]
fn a_validator_that_builds_itself_has_no_language() {
    let package = PackageFixture::new(CUSTOM)
        .executable("output_validators/v/build", "#!/bin/sh\ng++ -o run v.cpp\n")
        .write("output_validators/v/v.cpp", "")
        .read_clean();
    let found = program(&package);
    assert_eq!(found.language, None);
    assert_eq!(found.build, Some(StepCommand::Shell("./build".into())));
    assert_eq!(found.run, StepCommand::Shell("./run".into()));
    let executable = |file: &&problems::PackageFile| file.executable;
    assert_eq!(found.files.iter().filter(executable).count(), 1);
    // A script may have lost its mode on the way.
    let package = PackageFixture::new(CUSTOM)
        .write("output_validators/run", "#!/bin/sh\nexit 42\n")
        .read_clean();
    let found = program(&package);
    assert_eq!((&found.build, found.files[0].executable), (&None, true));
}

#[test]
fn the_check_of_a_task_has_the_limits_of_the_package() {
    let package = PackageFixture::new(CUSTOM)
        .write("output_validators/v.py", "")
        .read_clean();
    let check = package.check.with_source(TaskFiles::new(), &package.limits);
    let Check::Program(program) = check else {
        panic!("a program checks");
    };
    assert_eq!(program.protocol, JudgeProtocol::Icpc);
    assert_eq!(program.execute.args, ["-x", "3"]);
    let limits = program.execute.limits;
    assert_eq!(
        (limits.cpu.unwrap().as_secs(), limits.memory),
        (10, Some(64 << 20))
    );
    assert!(limits.wall.unwrap() > limits.cpu.unwrap());
}

#[test]
fn a_validator_that_is_not_asked_for_is_named() {
    let package = PackageFixture::new("").write("output_validators/v.py", "");
    assert_eq!(
        package.warnings(),
        ["output_validators: is not used, because validation is not custom"]
    );
    let package = PackageFixture::new(CUSTOM)
        .write("output_validators/v/v.py", "")
        .write("output_validators/README", "");
    assert_eq!(
        package.warnings(),
        ["output_validators/README: is beside the folder of the validator, ignored"]
    );
}

#[test]
fn a_validator_that_cannot_judge_is_an_error() {
    for (settings, files, expected) in [
        (
            CUSTOM,
            &[][..],
            "problem.yaml: validation is custom, but there is no program in output_validators/",
        ),
        (
            "validation: custom interactive\n",
            &[],
            "problem.yaml: the problem is interactive, but there is no program in output_validators/",
        ),
        (
            CUSTOM,
            &["output_validators/a/a.py", "output_validators/b/b.py"],
            "output_validators: several validators: only one judges; leave one folder: not supported",
        ),
        (
            CUSTOM,
            &["output_validators/v.xyz"],
            "output_validators: no file has the extension of a known language; a program in another language needs a \
             file named run, or build",
        ),
        (CUSTOM, &["output_validators"], "output_validators: is no folder"),
        (
            "validator_flags: fast\n",
            &[],
            "problem.yaml: the default validator does not know the flag 'fast'",
        ),
    ] {
        let package = files.iter().fold(PackageFixture::new(settings), |package, path| {
            package.write(path, "")
        });
        assert_eq!(package.error(), expected);
    }
}
