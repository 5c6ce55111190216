//! Every option of a check, once.

/// Hands the table of options to the macro of the given name.
///
/// A row has the option's documentation, its name, the kind of its value, and an example of how the
/// attribute writes it. Rows stand in groups, by where the option may be given beside the attribute:
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
/// | `number` | a whole number of things |
/// | `runs`, `rounds` | how often the body runs; of rounds there is at least one |
/// | `layer` | the name of a layer |
/// | `flag`, `switch` | `true` or `false`; a switch's name alone means `true` |
/// | `on_leak` | `"fail"` or `"warn"` |
/// | `duration` | text with a unit of time |
/// | `expect`, `unchecked_if` | their own forms |
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
                /// The most bytes that what the check allocates may come to at once, per device, inclusive.
                max_allocated: size = "max_allocated = \"64 MiB\"",
                /// The most bytes that an allocator may reserve beyond its baseline, per device, inclusive.
                max_reserved: size = "max_reserved = \"128 MiB\"",
                /// How many allocations the check may make, per device, inclusive.
                max_allocation_count: number = "max_allocation_count = 100",
                /// The allocator whose figures the three limits are about; the driver without it.
                layer: layer = "layer = \"allocator:NAME\"",
                /// How many rounds the body runs, which fails only for what grows in each; 1 is one
                /// ordinary run.
                rounds: rounds = "rounds = 5",
                /// Whether a body with findings runs once more, so that only what repeats is a leak.
                confirm: flag = "confirm = false",
                /// How often the body runs before it is measured.
                warmup: runs = "warmup = 1",
            }
            process {
                /// Whether the test shares the process with other such tests.
                parallel: switch = "parallel",
                /// Whether the test runs in a process of its own.
                isolate: switch = "isolate",
            }
            policy {
                /// What a leak does to the test.
                on_leak: on_leak = "on_leak = \"warn\"",
                /// How long to wait for frees that are in flight.
                settle: duration = "settle = \"250ms\"",
            }
            attribute {
                /// What is to leak, exactly.
                expect: expect = "expect(count = 2, bytes = \"1 MiB\")",
                /// When the body runs without being judged.
                unchecked_if: unchecked_if = "unchecked_if(condition, \"reason\")",
            }
        }
    };
}
