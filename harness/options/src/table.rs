//! The table of all options of a check.

/// Passes the table of options to the macro with the given name.
///
/// A row has the option's documentation, its name, the kind of its value, and an example of the
/// attribute's syntax. Rows are grouped by where the option can be set besides the attribute:
///
/// | group | where |
/// | --- | --- |
/// | `facts` | in the configuration file's `[check]` and `[[override]]`, and on `Check` |
/// | `process` | in `[check]` and `[[override]]` |
/// | `policy` | in the file's `[run]`, as an environment variable, and on `Check` |
/// | `attribute` | nowhere else |
///
/// The kinds of values:
///
/// | kind | value |
/// | --- | --- |
/// | `size` | bytes: a whole number, or text with a unit |
/// | `number` | a whole number |
/// | `runs`, `rounds` | how many times the body runs; see [`rounds`](crate::rounds) |
/// | `layer` | the name of a layer; see [`layer`](crate::layer) |
/// | `flag`, `switch` | `true` or `false`; a switch's name alone means `true` |
/// | `on_leak` | `"fail"` or `"warn"` |
/// | `duration` | text with a unit of time |
/// | `expect`, `unchecked_if` | their own syntax |
///
/// ```
/// macro_rules! names {
///     ($($group:ident {
///         $($(#[$doc:meta])* $name:ident: $kind:ident = $example:literal,)*
///     })*) => {
///         [$($(stringify!($name)),*),*]
///     };
/// }
/// let names = gpu_leak_check_options::options!(names);
/// assert_eq!(names[0], "tolerance");
/// ```
#[macro_export]
macro_rules! options {
    ($table:ident) => {
        $table! {
            facts {
                /// Bytes that may stay allocated, per device and layer, inclusive.
                tolerance: size = "tolerance = \"1 MiB\"",
                /// Bytes that may stay reserved, per device and layer, inclusive.
                reserved_tolerance: size = "reserved_tolerance = \"2 MiB\"",
                /// The most bytes that the check may hold at any one time, per device, inclusive.
                max_allocated: size = "max_allocated = \"64 MiB\"",
                /// The most bytes that the check may allocate in total, freed or not, per device,
                /// inclusive.
                max_total_allocated: size = "max_total_allocated = \"1 GiB\"",
                /// The most bytes that an allocator may reserve beyond its baseline, per device,
                /// inclusive.
                max_reserved: size = "max_reserved = \"128 MiB\"",
                /// The most allocations that the check may make, per device, inclusive.
                max_allocation_count: number = "max_allocation_count = 100",
                /// The allocator to which the budgets apply; by default, the driver.
                layer: layer = "layer = \"allocator:NAME\"",
                /// How many rounds the body runs; the check then fails only for growth in every
                /// round. 1 is one ordinary run.
                rounds: rounds = "rounds = 5",
                /// Whether a body with findings runs once more, so that only findings that repeat
                /// are leaks.
                confirm: flag = "confirm = false",
                /// How many times the body runs before it is measured.
                warmup: runs = "warmup = 1",
            }
            process {
                /// Whether the test runs in parallel with other such tests.
                parallel: switch = "parallel",
                /// Whether the test runs in its own process.
                isolate: switch = "isolate",
                /// Whether the test needs a GPU. If there is none, `without_gpu = "skip"` skips
                /// only tests that need one.
                needs_gpu: flag = "needs_gpu = false",
            }
            policy {
                /// The effect of a leak on the test's outcome.
                on_leak: on_leak = "on_leak = \"warn\"",
                /// How long to wait for frees that are in flight.
                settle: duration = "settle = \"250ms\"",
                /// Whether the report lists the contents of each peak, line by line.
                peaks: switch = "peaks",
            }
            attribute {
                /// The exact leak that the check must have.
                expect: expect = "expect(count = 2, bytes = \"1 MiB\")",
                /// When to run the body without judging it.
                unchecked_if: unchecked_if = "unchecked_if(condition, \"reason\")",
            }
        }
    };
}

/// Passes the table of budgets to the macro with the given name. Each row has the
/// [option](crate::options) that sets the budget and the name that the judgement uses for it.
#[macro_export]
macro_rules! budgets {
    ($table:ident) => {
        $table! {
            /// Bytes allocated at once.
            max_allocated: MaxAllocated,
            /// Bytes allocated in total, freed or not.
            max_total_allocated: MaxTotalAllocated,
            /// Bytes reserved beyond the baseline.
            max_reserved: MaxReserved,
            /// Allocations made.
            max_allocation_count: MaxAllocationCount,
        }
    };
}
