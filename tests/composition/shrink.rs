//! Shrinks a failing program.

use super::program::{Action, Program, Settings, Step, When};

/// Removes one element at a time, and returns the smallest program found that still `fails`.
pub(super) fn shrink(mut program: Program, mut fails: impl FnMut(&Program) -> bool) -> Program {
    loop {
        let smaller = candidates(&program).into_iter().find(&mut fails);
        match smaller {
            Some(smaller) => program = smaller,
            None => return program,
        }
    }
}

fn candidates(program: &Program) -> Vec<Program> {
    let with_body = |body| Program {
        body,
        ..program.clone()
    };
    let mut all: Vec<Program> = bodies(&program.body).into_iter().map(with_body).collect();
    for settings in simpler(program.settings) {
        all.push(Program {
            settings,
            ..program.clone()
        });
    }
    if program.has_neighbour {
        all.push(Program {
            has_neighbour: false,
            ..program.clone()
        });
    }
    all
}

/// Returns each body that results from removing one element of `steps`.
fn bodies(steps: &[Step]) -> Vec<Vec<Step>> {
    let mut all = Vec::new();
    for at in 0..steps.len() {
        let mut without = steps.to_vec();
        let step = without.remove(at);
        all.push(without.clone());
        if let Some(inner) = step.action.body() {
            let mut flat = without.clone();
            flat.splice(at..at, inner.iter().cloned());
            all.push(flat);
            for smaller in bodies(inner) {
                let mut changed = step.clone();
                *changed.action.body_mut().expect("it has a body") = smaller;
                all.push(with(&without, at, changed));
            }
        }
        if let Action::Check { settings, .. } = &step.action {
            for simpler in simpler(*settings) {
                let mut changed = step.clone();
                if let Action::Check { settings, .. } = &mut changed.action {
                    *settings = simpler;
                }
                all.push(with(&without, at, changed));
            }
        }
        if step.when != When::Always {
            let mut changed = step.clone();
            changed.when = When::Always;
            all.push(with(&without, at, changed));
        }
    }
    all
}

fn with(steps: &[Step], at: usize, step: Step) -> Vec<Step> {
    let mut steps = steps.to_vec();
    steps.insert(at, step);
    steps
}

fn simpler(settings: Settings) -> Vec<Settings> {
    let all = [
        Settings {
            tolerance: 0,
            ..settings
        },
        Settings {
            reserved_tolerance: 0,
            ..settings
        },
        Settings {
            confirm: true,
            ..settings
        },
        Settings {
            rounds: 1,
            ..settings
        },
        Settings {
            warmup: 0,
            ..settings
        },
        Settings {
            warns: false,
            ..settings
        },
    ];
    all.into_iter().filter(|it| *it != settings).collect()
}
