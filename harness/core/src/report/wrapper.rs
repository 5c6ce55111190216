//! Functions that only wrap a call to the driver, and whose callers reports show.

use super::function_path::{bare_name, segments};
use super::location::CALL_OF_LAMBDA;
use super::{Frame, Site};

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
        let name = self.user_frame().and_then(|it| it.function.as_deref());
        let parts: Vec<_> = segments(name.unwrap_or_default()).collect();
        let (of, name) = match parts[..] {
            [.., of, name] => (of, name),
            [name] => ("", name),
            [] => ("", ""),
        };
        let is_closure = name.ends_with('}') || bare_name(name) == CALL_OF_LAMBDA;
        // A C++ constructor or destructor has the name of its type, which may be in lower case.
        let file = self.user_frame().and_then(|it| it.file.as_deref());
        let is_rust = file.is_some_and(|file| file.ends_with(".rs"));
        let is_constructor =
            !is_rust && !of.is_empty() && bare_name(of) == bare_name(name.trim_start_matches('~'));
        let is_method = of.starts_with(char::is_uppercase) || of.ends_with('>') || is_constructor;
        let caller = self.caller_of_wrapper();
        if let Some(caller) = caller.filter(|_| !is_method && !is_closure) {
            let mut frames = self.frames.iter();
            site.user = frames.position(|it| it == caller);
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
    fn methods_of_cpp_are_no_wrappers() {
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
