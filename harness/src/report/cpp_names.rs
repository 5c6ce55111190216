//! The names of C++ functions.

use std::fmt::{self, Write};

use cpp_demangle::{BorrowedSymbol, DemangleOptions};

/// The prefix of mangled C++ names, as defined by the
/// [Itanium C++ ABI](https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling).
const PREFIX: &str = "_Z";
/// The longest name that is restored, in bytes.
const LONGEST: usize = 1 << 16;
/// The longest name that keeps its template arguments, in bytes.
const LONGEST_IN_FULL: usize = 1024;

/// Returns `pool::Block<float, 16>::Block` for `_ZN4pool5BlockIfLi16EEC2ERKi`: the function's path
/// and its template arguments, without parameters. Other names are returned unchanged.
pub(super) fn demangled(name: String) -> String {
    of_symbol(&name).unwrap_or(name)
}

/// Returns the name of the C++ function with this symbol; `None` if the symbol is not a mangled C++
/// name, or if the name is too long.
fn of_symbol(symbol: &str) -> Option<String> {
    // If a compiler splits or specialises a function, the parts and copies have a suffix, such as
    // `.cold` or `.isra.0`.
    let mangled = symbol.split('.').next().unwrap_or(symbol);
    let mangled = mangled.starts_with(PREFIX).then_some(mangled)?;
    let options = DemangleOptions::new()
        .no_params()
        .no_return_type()
        .hide_expression_literal_types();
    let mut name = Limited(String::new());
    let parsed = BorrowedSymbol::new(mangled.as_bytes()).ok()?;
    parsed.structured_demangle(&mut name, &options).ok()?;
    let mut bare = &*name.0;
    // These words belong to the type of a method and not to its name.
    while let Some(rest) = [" const", " volatile", " &", " &&"]
        .iter()
        .find_map(|word| bare.strip_suffix(word))
    {
        bare = rest;
    }
    let name = match bare.len() > LONGEST_IN_FULL {
        true => without_arguments(bare),
        false => bare.to_owned(),
    };
    (!name.is_empty()).then_some(name)
}

/// Returns `lib::Gemm<…>::run` for a function of this type with any template arguments.
fn without_arguments(name: &str) -> String {
    let (mut short, mut depth) = (String::new(), 0_usize);
    for character in name.chars() {
        match character {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth > 0 => continue,
            _ => {}
        }
        match (character, depth) {
            ('<', 1) => short.push_str("<…"),
            ('>', 0) => short.push('>'),
            ('<' | '>', _) => {}
            _ => short.push(character),
        }
    }
    short
}

/// A name that is being written. Its length is limited, because a symbol can refer back to its own
/// parts, so even a short symbol can stand for a name that is too long for any memory.
struct Limited(String);

impl Write for Limited {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.0.len() + part.len() > LONGEST {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
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
            ("_ZNK1Q8is_constEv", "Q::is_const"),
            ("_ZNVK1Q4sizeEv", "Q::size"),
            ("_ZNO1Q4rrefEv", "Q::rref"),
            ("_Z2tpILin3ELj4EEvv", "tp<-3, 4>"),
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

    #[test]
    fn a_symbol_with_an_endless_name_stays_as_it_is() {
        // `make<P<…>>()`, where each `P` has ten arguments, all of them the `P` before it. The name
        // has a billion parts.
        let mut symbol = "_Z4makeI1P".to_owned() + &"IJS0_".repeat(9) + "IJiEE";
        for level in 1..10 {
            symbol += &format!("S{level}_").repeat(9);
            symbol += "EE";
        }
        symbol += "Evv";
        assert_eq!(demangled(symbol.clone()), symbol);
        let long = "_ZN3lib4GemmIJ".to_owned() + &"St17integral_constantImLm0EE".repeat(60);
        assert_eq!(demangled(long + "EE3runEv"), "lib::Gemm<…>::run");
        let short = "_Z4makeI1PIJS0_IJiEES1_EEEvv";
        assert_eq!(demangled(short.to_owned()), "make<P<P<int>, P<int> > >");
    }
}
