//! Replaces the frames of an interpreter with the lines of the interpreted program. What the
//! interpreter does between two lines, or between a line and a compiled function, does not help the
//! reader, and its functions have different names in every release.

use super::check_report::Frame;

/// A line of the interpreted program.
#[derive(Clone, Debug)]
pub(super) struct ScriptFrame {
    pub(super) frame: Frame,
    /// Whether the line belongs to the outermost function of an evaluation that compiled code
    /// started.
    pub(super) outermost: bool,
}

/// Returns the frames `native`, innermost first, with the lines of `script` in place of the
/// interpreter's frames.
///
/// Each frame of the interpreter's evaluation loop stands for the lines up to and including an
/// outermost line. If outer native frames are cut off or the interpreter has no symbols, there are
/// lines without a frame of the loop. These are placed after the interpreter's innermost frame or,
/// if there is none, at the end.
pub(super) fn interleaved(native: Vec<Frame>, script: Vec<ScriptFrame>) -> Vec<Frame> {
    if script.is_empty() {
        return native;
    }
    let loops = native.iter().filter(|frame| is_loop(frame)).count();
    let runs = script.iter().filter(|line| line.outermost).count();
    let mut script = script.into_iter();
    let mut frames = Vec::new();
    let mut rest_at = None;
    let mut seen = 0;
    for frame in native {
        if is_loop(&frame) {
            seen += 1;
            for line in script.by_ref() {
                frames.push(line.frame);
                if line.outermost {
                    break;
                }
            }
        }
        if !is_interpreter(&frame) {
            frames.push(frame);
        } else if seen == loops && loops < runs {
            rest_at.get_or_insert(frames.len());
        }
    }
    let rest_at = rest_at.unwrap_or(frames.len());
    frames.splice(rest_at..rest_at, script.map(|line| line.frame));
    frames
}

/// Whether this frame is CPython's evaluation loop.
fn is_loop(frame: &Frame) -> bool {
    let function = frame.function.as_deref().unwrap_or_default();
    // If the compiler has split off a part of a function, the name of that part has a suffix after
    // a dot.
    function.split('.').next() == Some("_PyEval_EvalFrameDefault")
}

/// Whether the frame belongs to CPython, which is in a library such as `libpython3.12.so.1.0` or in
/// the program `python3.12`.
fn is_interpreter(frame: &Frame) -> bool {
    let module = frame.module.as_deref().unwrap_or_default();
    let name = module.strip_prefix("lib").unwrap_or(module);
    let version = name.strip_prefix("python");
    is_loop(frame) || version.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphabetic()))
}

#[cfg(test)]
mod tests {
    use super::{Frame, ScriptFrame, interleaved};

    const LOOP: &str = "_PyEval_EvalFrameDefault";

    fn native(function: &str, module: &str) -> Frame {
        Frame {
            function: Some(function.into()),
            module: Some(module.into()),
            ..Frame::default()
        }
    }

    fn joined(natives: &[(&str, &str)], script: &[(&str, bool)]) -> String {
        let natives = natives.iter().map(|(function, at)| native(function, at));
        let script = script.iter().map(|(function, outermost)| ScriptFrame {
            frame: native(function, ""),
            outermost: *outermost,
        });
        let frames = interleaved(natives.collect(), script.collect());
        let names: Vec<_> = frames.into_iter().filter_map(|f| f.function).collect();
        names.join(" ")
    }

    #[test]
    fn each_interpreter_loop_is_replaced_by_the_lines_it_evaluates() {
        let natives = [
            ("c10::malloc", "libc10_cuda.so"),
            ("_PyObject_Vectorcall", "libpython3.12.so.1.0"),
            (LOOP, "libpython3.12.so.1.0"),
            ("pybind11::call", "libtorch_python.so"),
            (LOOP, "libpython3.12.so.1.0"),
            ("Py_RunMain", "libpython3.12.so.1.0"),
            ("main", "python3.12"),
            ("_start", "python3.12"),
        ];
        let script = [
            ("hook", true),
            ("step", false),
            ("train", false),
            ("<module>", true),
        ];
        assert_eq!(
            joined(&natives, &script),
            "c10::malloc hook pybind11::call step train <module>"
        );
    }

    #[test]
    fn lines_are_at_the_end_if_native_frames_are_cut_off() {
        let natives = [("c10::malloc", "libc10_cuda.so"), (LOOP, "python3.12")];
        let script = [("hook", true), ("step", false), ("<module>", true)];
        assert_eq!(joined(&natives, &script), "c10::malloc hook step <module>");
        assert_eq!(
            joined(&natives[..1], &script),
            "c10::malloc hook step <module>"
        );
    }

    #[test]
    fn a_stripped_interpreter_is_known_by_its_file() {
        let natives = [
            ("c10::malloc", "libc10_cuda.so"),
            ("?", "python3"),
            ("?", "python3"),
            ("__libc_start_main", "libc.so.6"),
        ];
        let script = [("step", false), ("<module>", true)];
        assert_eq!(
            joined(&natives, &script),
            "c10::malloc step <module> __libc_start_main"
        );
    }

    #[test]
    fn a_stack_without_lines_keeps_the_interpreters_frames() {
        let natives = [("take", "libmine.so"), (LOOP, "python3.12")];
        assert_eq!(joined(&natives, &[]), format!("take {LOOP}"));
    }
}
