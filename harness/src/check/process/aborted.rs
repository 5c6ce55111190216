//! Checks that took their process down, told by the next process of the same run: a killed process
//! tells nothing itself.

use crate::report::Sink;
use crate::report::json::{self, Aborted, RunFile};

/// Those of other processes that have ended, unless one of them has told.
pub(crate) fn untold() -> Vec<Aborted> {
    let paths = Sink::global().neighbours();
    let files: Vec<RunFile> = paths
        .iter()
        .filter_map(|path| json::read(path).ok())
        .collect();
    let is_told = |aborted: &Aborted| files.iter().any(|file| file.told.contains(aborted));
    let ended = files.iter().filter_map(|file| {
        let header = file.header.as_ref()?;
        // Where nobody can say, it runs.
        let has_ended = header.is_running() == Some(false);
        has_ended.then_some((header.pid, file))
    });
    let aborted = ended.flat_map(|(pid, file)| {
        file.aborted.iter().map(move |began| Aborted {
            pid,
            test: began.test.clone(),
        })
    });
    aborted.filter(|aborted| !is_told(aborted)).collect()
}
