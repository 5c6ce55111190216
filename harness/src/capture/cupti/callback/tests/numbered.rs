//! Textures, which each context numbers by itself.

use super::{Allocate, anomalies, call_in, kinds};
use crate::ledger::{Kind, Ledger};

const CREATE_TEXTURE: u32 = 339;
const DESTROY_TEXTURE: u32 = 340;

#[test]
fn two_contexts_may_give_the_same_number_to_two_textures() {
    let ledger = Ledger::new();
    let (one, other) = ((0xc07e_0021_u64, 0x7e11), (0xc07e_0022, 0x7e12));
    let number = 1_u64;
    let create = Allocate(&raw const number, 0, 0);
    call_in(one, &ledger, CREATE_TEXTURE, &create);
    call_in(other, &ledger, CREATE_TEXTURE, &create);
    assert_eq!(kinds(&ledger), [Kind::Texture, Kind::Texture]);
    let made_in = || {
        let records = ledger.select(|_| true);
        let contexts = records.iter().map(|record| record.made.context.0);
        contexts.collect::<Vec<_>>()
    };
    call_in(one, &ledger, DESTROY_TEXTURE, &number);
    assert_eq!(made_in(), [other.1]);
    call_in(other, &ledger, DESTROY_TEXTURE, &number);
    assert!(made_in().is_empty());
    assert_eq!(anomalies(&ledger), []);
    assert_eq!(ledger.unknown_releases(), 0);
}

#[test]
fn a_texture_may_be_destroyed_while_another_context_is_current() {
    let ledger = Ledger::new();
    let (one, other) = ((0xc07e_0031_u64, 0x7e21), (0xc07e_0032, 0x7e22));
    // Some drivers may give numbers, others pointers.
    for texture in [1_u64, 0x5555_0000_1000] {
        let create = Allocate(&raw const texture, 0, 0);
        call_in(one, &ledger, CREATE_TEXTURE, &create);
        call_in(other, &ledger, DESTROY_TEXTURE, &texture);
        assert_eq!(kinds(&ledger), []);
    }
    call_in(other, &ledger, DESTROY_TEXTURE, &1_u64);
    assert_eq!(ledger.unknown_releases(), 1);
}
