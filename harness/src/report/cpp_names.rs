//! The names of C++ functions.

use cpp_demangle::{BorrowedSymbol, DemangleOptions};

/// The prefix of the symbols of C++, as defined by the
/// [Itanium C++ ABI](https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling).
const PREFIX: &str = "_Z";

/// Returns `pool::Block<float, 16>::Block` for `_ZN4pool5BlockIfLi16EEC2ERKi`: the function's path
/// and its template arguments, without parameters. Other names are returned unchanged.
pub(super) fn demangled(name: String) -> String {
    of_symbol(&name).unwrap_or(name)
}

/// Returns the name of the C++ function with this symbol; `None` if it is not one of C++.
pub(super) fn of_symbol(symbol: &str) -> Option<String> {
    // If a compiler splits or specialises a function, the parts and copies have a suffix, such as
    // `.cold` or `.isra.0`.
    let mangled = symbol.split('.').next().unwrap_or(symbol);
    let parsed = BorrowedSymbol::new(mangled.starts_with(PREFIX).then_some(mangled)?.as_bytes());
    let options = DemangleOptions::new().no_params().no_return_type();
    let name = parsed.ok()?.demangle_with_options(&options).ok()?;
    // These words belong to the type of a method and not to its name.
    let bare = ["const", "volatile"].iter().fold(&*name, |name, word| {
        name.strip_suffix(word).map_or(name, str::trim_end)
    });
    Some(bare.to_owned())
}

#[cfg(test)]
mod tests {
    use super::demangled;

    #[test]
    fn functions_of_cpp_have_the_names_of_their_sources() {
        for (symbol, name) in [
            ("_Z8spmv_cooimPKfmPfS1_", "spmv_coo"),
            (
                "_Z14attention_pageIfLi16EEviiiiiii",
                "attention_page<float, 16>",
            ),
            (
                "_ZN4pool5BlockIdLi64EEC2ERKSt6vectorIdSaIdEE",
                "pool::Block<double, 64>::Block",
            ),
            ("_ZNK4pool5Block4sizeEv", "pool::Block::size"),
            (
                "_ZN4pool12_GLOBAL__N_19AllocatorIfE8allocateEm",
                "pool::(anonymous namespace)::Allocator<float>::allocate",
            ),
            (
                "_ZZ4mainENKUlmE0_clEm",
                "main::{lambda(unsigned long)#2}::operator()",
            ),
            ("_Z4fillv.part.0.cold", "fill"),
        ] {
            assert_eq!(demangled(symbol.to_owned()), name);
        }
    }

    #[test]
    fn other_names_stay_as_they_are() {
        for name in [
            "cudaMalloc",
            "optim::Adam::step",
            "_Zebra",
            "_Z",
            "main",
            "",
        ] {
            assert_eq!(demangled(name.to_owned()), name);
        }
    }
}
