//! Tells the code whether it is optimised, for which way of walking a stack is the quicker one
//! depends on it; and writes the README as the crate's documentation has it: its links lead into the
//! repository, which docs.rs does not have beside it.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(optimised)");
    if env::var_os("OPT_LEVEL").is_some_and(|level| level != "0") {
        println!("cargo::rustc-cfg=optimised");
    }
    let readme = readme();
    println!("cargo::rerun-if-changed={}", readme.display());
    let text = fs::read_to_string(readme)?;
    let repository = env::var("CARGO_PKG_REPOSITORY")?;
    let folder = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(folder.join("README.md"), absolute(&text, &repository))?;
    Ok(())
}

/// The workspace's, which `cargo package` puts into the crate's own folder.
fn readme() -> PathBuf {
    let packaged = Path::new("README.md");
    if packaged.exists() {
        packaged.to_owned()
    } else {
        Path::new("..").join(packaged)
    }
}

/// `text` with its links to the repository's files made absolute.
fn absolute(text: &str, repository: &str) -> String {
    let mut out = text.to_owned();
    for (opens, view) in [("](", "blob"), ("src=\"", "raw"), ("srcset=\"", "raw")] {
        let mut parts = out.split(opens);
        let mut linked = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            linked.push_str(opens);
            if !part.starts_with("https://") && !part.starts_with('#') {
                linked.extend([repository, "/", view, "/HEAD/"]);
            }
            linked.push_str(part);
        }
        out = linked;
    }
    out
}
