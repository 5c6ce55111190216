//! The names of frames in reports, and the frame that a report shows if a function only wraps a
//! call to the driver.

use std::sync::Arc;

use super::function_path::{bare_name, segments, without_modules, without_paths_of_traits};
use super::{Frame, Language, Owner, Site};
use crate::escape;

/// The largest number of callers that are listed.
const CALLERS: usize = 6;
/// The name that is shown for the test's own function.
const THE_TEST: &str = "the test";
const A_CLOSURE: &str = "a closure in ";
/// The name that C++ gives to the function of a lambda.
const CALL_OF_LAMBDA: &str = "operator()";

impl Site {
    /// Returns the frame of the user's line.
    #[must_use]
    pub fn user_frame(&self) -> Option<&Frame> {
        self.frames.get(self.user?)
    }

    /// Returns the file and the number of the user's line, if both are known.
    pub(crate) fn line(&self) -> Option<(Arc<str>, u32)> {
        let frame = self.user_frame()?;
        Some((frame.file.clone()?, frame.line?))
    }

    /// Returns a location such as `src/optim.rs:88` or, without line tables, the function or
    /// library.
    #[must_use]
    pub fn location(&self) -> String {
        let short = |frame| position(frame).unwrap_or_else(|| name(frame));
        self.user_frame()
            .map_or_else(|| "an unknown place".to_owned(), short)
    }

    /// Whether there are frames of the user's code or of a dependency, but none of them has a known
    /// source line. With `with_native`, code in other languages counts too, if it is in the
    /// executable itself.
    #[must_use]
    pub fn lacks_lines(&self, with_native: bool) -> bool {
        let is_theirs = |frame: &&Frame| match frame.owner {
            Owner::User | Owner::Dependency => true,
            Owner::Native => {
                let module = frame.module.as_deref();
                let is_library = |it: &str| it.ends_with(".so") || it.contains(".so.");
                with_native && module.is_some_and(|module| !is_library(module))
            }
            _ => false,
        };
        let mut theirs = self.frames.iter().filter(is_theirs).peekable();
        theirs.peek().is_some() && theirs.all(|frame| frame.line.is_none())
    }

    /// Returns the user's frames that called the user's line: `fn (file:line) ← fn (file:line)`.
    /// The function of the test itself is called `the test`. If the program has no line tables,
    /// these are the callers whose functions are known.
    #[must_use]
    pub fn callers(&self, test: &str) -> Option<String> {
        let outer = self.frames.get(self.user?.checked_add(1)?..)?;
        let is_native = self.user_frame()?.owner == Owner::Native;
        let users = outer.iter().filter(|frame| match frame.owner {
            Owner::User => true,
            // Without line tables, nothing distinguishes the functions of a C or C++ program from
            // the functions of its libraries.
            Owner::Native => is_native && is_named_outside_the_system(frame),
            _ => false,
        });
        let mut users = users.peekable();
        let mut named: Vec<(String, usize)> = Vec::new();
        let mut before: Option<&Frame> = None;
        while let Some(frame) = users.next() {
            let mut name = caller(frame, test);
            if users
                .peek()
                .is_some_and(|outer| is_closure_in(frame, outer))
                && !is_known_by_its_line(frame)
            {
                name.insert_str(0, A_CLOSURE);
            }
            match named.last_mut() {
                // Recursion is counted. A closure on the same line as its function counts as the
                // same location.
                Some((last, times)) if *last == name => {
                    *times += usize::from(before.is_some_and(|it| it.function == frame.function));
                }
                Some((last, _))
                    if before
                        .is_some_and(|it| is_known_by_its_line(it) && is_same_line(it, frame)) =>
                {
                    *last = name;
                }
                _ => named.push((name, 1)),
            }
            before = Some(frame);
        }
        let more = named.len().saturating_sub(CALLERS);
        named.truncate(CALLERS);
        let mut callers: Vec<_> = named
            .into_iter()
            .map(|(name, times)| match times {
                1 => name,
                times => format!("{name} {times} times"),
            })
            .collect();
        if more > 0 {
            callers.push(format!("{more} more"));
        }
        (!callers.is_empty()).then(|| callers.join(" ← "))
    }

    /// Returns the user's line and its callers: `cache::evict (src/cache.rs:37) ← src/a.rs:12`.
    #[must_use]
    pub fn shown(&self, test: &str) -> String {
        let line = match self.user_frame() {
            Some(frame) => caller(frame, test),
            None => self.location(),
        };
        match self.callers(test) {
            Some(callers) => format!("{line} ← {callers}"),
            None => line,
        }
    }

    /// Returns the frames of the program's own functions from this line outwards.
    pub fn users_frames(&self) -> impl Iterator<Item = &Frame> + Clone {
        let frames = self.user.and_then(|user| self.frames.get(user..));
        let frames = frames.unwrap_or_default().iter();
        frames.filter(|frame| frame.owner == Owner::User)
    }

    /// Returns the name of this line's function, no matter who owns it, and the names of the
    /// program's own functions outside it.
    pub fn users_functions(&self) -> impl Iterator<Item = &str> {
        let own = self.user_frame().into_iter().chain(self.users_frames());
        own.filter_map(|frame| frame.function.as_deref())
    }
}

impl Frame {
    /// Whether the function is this test, or a closure in it.
    #[must_use]
    pub fn is_of_test(&self, test: &str) -> bool {
        let function = self.function.as_deref().unwrap_or_default();
        // A program or a library in C or C++ may have a function with the same name.
        let is_rust = |file: &str| file.ends_with(".rs");
        let is_of_c = self.language == Language::Compiled
            && (self.owner == Owner::Native || !self.file.as_deref().is_none_or(is_rust));
        !is_of_c && is_of_test(function, test)
    }

    /// Whether this frame belongs to one of the system's libraries in which threads begin.
    pub(crate) fn is_of_a_system_library(&self) -> bool {
        let module = self.module.as_deref().unwrap_or_default();
        ["libc.so", "libpthread.so", "libstdc++.so"]
            .iter()
            .any(|library| module.starts_with(library))
    }

    /// Formats a frame as a caller: `Adam::step (src/optim.rs:88)`. The file shows which module the
    /// function belongs to.
    #[must_use]
    pub fn shown(&self) -> String {
        self.shown_at(position(self))
    }

    /// Formats a frame as [`Self::shown`] does, given its [`position`].
    fn shown_at(&self, position: Option<String>) -> String {
        match position {
            Some(position) => format!("{} ({position})", without_modules(&name(self))),
            None => name(self),
        }
    }
}

/// Whether the function with this path is the test or part of it: a closure, or the body that the
/// attribute moved into a function.
pub(crate) fn is_of_test(path: &str, test: &str) -> bool {
    let inside = path.split_once("::").map_or(path, |(_, inside)| inside);
    let rest = inside.strip_prefix(test);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Returns a location such as `src/optim.rs:88:22` or `train.py:31:9 in Trainer.step`. Without line
/// tables, this is a location such as `optim::Adam::step in train`.
#[must_use]
pub fn full(frame: &Frame) -> String {
    let function = match &frame.function {
        // This is the form of Python's own tracebacks.
        Some(function) if frame.language == Language::Python && !is_top_level(function) => {
            format!(" in {}", escape::name(function))
        }
        _ => String::new(),
    };
    match (position(frame), frame.column) {
        (Some(position), Some(column)) => format!("{position}:{column}{function}"),
        (Some(position), None) => position + &function,
        (None, _) => match &frame.module {
            Some(module) if frame.function.is_some() => {
                format!("{} in {}", name(frame), escape::name(module))
            }
            _ => name(frame),
        },
    }
}

fn caller(frame: &Frame, test: &str) -> String {
    match position(frame) {
        Some(position) if frame.is_of_test(test) => format!("{THE_TEST} ({position})"),
        Some(position) if is_known_by_its_line(frame) => position,
        position => frame.shown_at(position),
    }
}

/// Whether this chain of callers begins in the test itself.
#[must_use]
pub fn begins_in_test(callers: &str) -> bool {
    let callers = callers.strip_prefix(A_CLOSURE).unwrap_or(callers);
    let rest = callers.strip_prefix(THE_TEST);
    rest.is_some_and(|rest| rest.starts_with(" ("))
}

/// Whether the function's name is known, and the function is neither in the system's libraries nor
/// in the C++ standard library.
fn is_named_outside_the_system(frame: &Frame) -> bool {
    let function = frame.function.as_deref();
    let is_standard = |function: &str| {
        ["std::", "__gnu_cxx::", "__cxxabiv1::"]
            .iter()
            .any(|namespace| function.starts_with(namespace))
    };
    function.is_some_and(|function| !is_standard(function)) && !frame.is_of_a_system_library()
}

/// Whether the function of `inner` is a closure in the function of `outer`, on another line.
/// Without the closure's name, this would look like recursion.
fn is_closure_in(inner: &Frame, outer: &Frame) -> bool {
    let names = inner.function.as_deref().zip(outer.function.as_deref());
    !is_same_line(inner, outer)
        && names.is_some_and(|(inner, outer)| {
            let inside = inner.strip_prefix(outer);
            inside.is_some_and(|inside| inside.starts_with("::{{closure}}"))
        })
}

fn is_same_line(one: &Frame, other: &Frame) -> bool {
    one.file.is_some() && (&one.file, one.line) == (&other.file, other.line)
}

/// Whether the name would be redundant, because it is the name of a file's top level, or of a
/// closure whose path is missing from the line tables.
fn is_known_by_its_line(frame: &Frame) -> bool {
    let path = frame.function.as_deref().unwrap_or_default();
    let is_bare_lambda = !path.contains("::") && bare_name(path) == CALL_OF_LAMBDA;
    path.starts_with('{') || is_bare_lambda || is_top_level(path)
}

/// Whether this is Python's name for the lines of a file outside any function.
fn is_top_level(function: &str) -> bool {
    function == "<module>"
}

/// Returns text such as `src/optim.rs:88`.
fn position(frame: &Frame) -> Option<String> {
    let file = escape::name(without_registry(frame.file.as_deref()?));
    Some(match frame.line {
        Some(line) => format!("{file}:{line}"),
        None => file,
    })
}

/// Returns the function or, if it is unknown, the offset in its library: `libtorch.so+0x1234`.
pub(crate) fn name(frame: &Frame) -> String {
    match (&frame.function, &frame.module) {
        (Some(function), _) => {
            let function = function.trim_end_matches("::{{closure}}");
            // In debug information, the name of a function that takes a closure contains the name
            // of the closure.
            let generic = function
                .find('<')
                .filter(|at| *at > 0 && function.contains("{closure_env#"));
            let function = generic.map_or(function, |at| &function[..at]);
            escape::name(&without_paths_of_traits(function))
        }
        (None, Some(module)) => {
            format!(
                "{}+{:#x}",
                escape::name(module),
                frame.offset.unwrap_or_default()
            )
        }
        (None, None) => "an unknown place".to_owned(),
    }
}

/// Whether this function is neither a closure nor a method.
fn is_free_function(frame: &Frame) -> bool {
    let parts: Vec<_> = segments(frame.function.as_deref().unwrap_or_default()).collect();
    let (of, name) = match parts[..] {
        [.., of, name] => (of, name),
        [name] => ("", name),
        [] => ("", ""),
    };
    let is_closure = name.ends_with('}') || bare_name(name) == CALL_OF_LAMBDA;
    // A C++ constructor or destructor has the name of its type, which may be in lower case.
    let is_rust = (frame.file.as_deref()).is_some_and(|file| file.ends_with(".rs"));
    let is_constructor =
        !is_rust && !of.is_empty() && bare_name(of) == bare_name(name.trim_start_matches('~'));
    let is_method = of.starts_with(char::is_uppercase) || of.ends_with('>') || is_constructor;
    !is_closure && !is_method
}

/// Returns `cudarc-0.19.10/src/lib.rs` for a file in cargo's registry, whose directory is
/// irrelevant.
fn without_registry(file: &str) -> &str {
    let inside = file
        .split_once("/registry/src/")
        .and_then(|(_, path)| path.split_once('/'));
    inside.map_or(file, |(_, path)| path)
}

impl Site {
    /// Returns the frame of the program that called this line's function, if that function is a
    /// wrapper in another file that only calls the API.
    pub fn caller_of_wrapper(&self) -> Option<&Frame> {
        let mut frames = self.users_frames();
        let wrapper = frames.next().filter(|_| self.calls_the_api())?;
        frames.find(|frame| frame.file != wrapper.file)
    }

    /// Returns the same site as seen by the caller of a wrapper that only calls the API, if the
    /// wrapper is a free function. A method belongs to the object that it allocates for, and a
    /// closure to the function that contains it.
    #[must_use]
    pub fn outside_wrapper(&self) -> Self {
        let mut site = self.clone();
        if self.user_frame().is_some_and(is_free_function)
            && let Some(caller) = self.caller_of_wrapper()
        {
            site.user = self.frames.iter().position(|it| it == caller);
        }
        site
    }

    /// Whether this line itself calls the API of a driver, as in a function that only wraps one
    /// call.
    pub fn calls_the_api(&self) -> bool {
        if self.user_frame().is_none_or(|frame| frame.several_calls) {
            return false;
        }
        let inner = self.user.and_then(|user| self.frames.get(..user));
        let names = inner.unwrap_or_default().iter();
        let names = names.filter_map(|frame| frame.function.as_deref()?.rsplit("::").next());
        let is_of_api = |name: &str| {
            let name = name.strip_prefix("cu").or(name.strip_prefix("vk"));
            name.is_some_and(|name| name.starts_with(char::is_uppercase))
        };
        names.clone().all(is_of_api)
    }
}

#[cfg(test)]
mod tests {
    use crate::report::{Frame, Owner, Site};

    #[test]
    fn a_closure_is_distinguished_from_recursion_of_its_function() {
        let frame = |function: &str, line| Frame {
            function: Some(function.into()),
            file: Some("src/app.rs".into()),
            line: Some(line),
            owner: Owner::User,
            ..Frame::default()
        };
        let called = |callers: &[Frame]| {
            let mut frames = vec![frame("app::load", 1)];
            frames.extend(callers.iter().cloned());
            let user = Some(0);
            let site = Site {
                frames,
                user,
                ..Site::default()
            };
            site.callers("test").expect("there are callers")
        };
        let closure = frame("app::compare::{{closure}}", 2);
        let function = frame("app::compare", 3);
        let inside = "a closure in app::compare (src/app.rs:2) ← app::compare (src/app.rs:3)";
        assert_eq!(called(&[closure.clone(), function.clone()]), inside);
        // The closure is called by another function, as with a future.
        let alone = "app::compare (src/app.rs:2) ← app::poll (src/app.rs:4)";
        assert_eq!(called(&[closure, frame("app::poll", 4)]), alone);
        let recursion = "app::compare (src/app.rs:3) ← app::compare (src/app.rs:4)";
        assert_eq!(called(&[function, frame("app::compare", 4)]), recursion);
    }

    #[test]
    fn without_line_tables_the_callers_are_the_functions_with_names() {
        let frame = |function: Option<&str>, owner| Frame {
            function: function.map(Into::into),
            owner,
            ..Frame::default()
        };
        let frames = vec![
            frame(Some("pool::Pool::grow"), Owner::Native),
            frame(Some("std::function<void ()>::operator()"), Owner::Native),
            frame(None, Owner::Native),
            frame(Some("fill"), Owner::Native),
            frame(Some("main"), Owner::Native),
        ];
        let mut site = Site {
            frames,
            user: Some(0),
            ..Site::default()
        };
        assert_eq!(site.callers("main").as_deref(), Some("fill ← main"));
        // The functions of libraries are not listed next to the user's own.
        site.frames[0].owner = Owner::User;
        assert_eq!(site.callers("main"), None);
    }

    #[test]
    fn only_a_rust_function_can_be_the_test() {
        let frame = |file: Option<&str>, owner| Frame {
            function: Some("Trainer::train".into()),
            file: file.map(Into::into),
            owner,
            ..Frame::default()
        };
        assert!(frame(Some("src/trainer.rs"), Owner::User).is_of_test("train"));
        assert!(frame(None, Owner::User).is_of_test("train"));
        assert!(!frame(Some("trainer.cpp"), Owner::User).is_of_test("train"));
        assert!(!frame(None, Owner::Native).is_of_test("train"));
    }

    #[test]
    fn only_the_program_itself_can_lack_lines() {
        let frame = |module: &str, line| Frame {
            module: Some(module.into()),
            line,
            owner: Owner::Native,
            ..Frame::default()
        };
        let lacks_lines = |frames: &[Frame]| {
            let frames = frames.to_vec();
            Site {
                frames,
                ..Site::default()
            }
            .lacks_lines(true)
        };
        let library = frame("libtorch_cuda.so", None);
        assert!(lacks_lines(&[library.clone(), frame("simulate", None)]));
        assert!(!lacks_lines(&[library.clone(), frame("simulate", Some(3))]));
        assert!(!lacks_lines(&[library]));
    }

    #[test]
    fn a_missing_user_frame_has_no_callers() {
        let site = Site {
            user: Some(usize::MAX),
            ..Site::default()
        };
        assert_eq!(site.callers("test"), None);
        assert_eq!(site.user_frame(), None);
    }

    /// Returns whether a report shows the caller of this function, which is in `pool.hpp` and only
    /// makes a call, instead of the function itself.
    fn is_a_wrapper(function: &str) -> bool {
        let frame = |function: &str, file: &str| Frame {
            function: Some(function.into()),
            file: Some(file.into()),
            line: Some(1),
            owner: Owner::User,
            ..Frame::default()
        };
        let site = Site {
            frames: vec![frame(function, "pool.hpp"), frame("main", "main.cpp")],
            user: Some(0),
            ..Site::default()
        };
        site.outside_wrapper().user == Some(1)
    }

    #[test]
    fn methods_of_cpp_are_not_wrappers() {
        for wrapper in [
            "take",
            "memory::take",
            "take<app::Item>",
            "memory::take<Item>",
        ] {
            assert!(is_a_wrapper(wrapper), "{wrapper}");
        }
        for method in [
            "Pool::grow",
            "Vec<app::Item>::assign<app::Item>",
            "vec<int>::assign",
            "buffer::buffer",
            "buffer::~buffer",
            "main::{lambda()#1}::operator()",
            "operator()",
            "operator()<long unsigned int>",
        ] {
            assert!(!is_a_wrapper(method), "{method}");
        }
    }
}
