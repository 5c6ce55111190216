//! Tests of the table of a device, and of the figures for the whole device.

use super::body::{Body, check, gpu, usage};
use crate::judge::{DeviceName, LayerName, LayerUsage, device_tables};
use crate::ledger::{Counted, Layer, Place, PoolName};

#[test]
fn the_table_of_a_device_has_a_row_for_what_it_holds_or_held() {
    let mut check = check();
    let device = |name: &str| DeviceName {
        name: name.to_owned(),
        uuid: Some("GPU-5f2c".to_owned()),
    };
    check
        .input
        .names
        .devices
        .insert(gpu(), device("NVIDIA H200"));
    check.run(|run| {
        let driver = |allocated, peak, place| LayerUsage {
            allocated,
            peak: Some(peak),
            place,
            ..LayerUsage::new(LayerName::Layer(Layer::DRIVER), place)
        };
        let pool = || LayerName::Pool(PoolName::Default);
        run.input.baseline.layers = vec![
            driver(8, 8, gpu()),
            driver(16, 16, Place::HOST),
            usage(pool(), 0, 32),
            usage(LayerName::Pool(PoolName::Graph), 0, 0),
        ];
        run.input.end.layers = vec![
            driver(24, 48, gpu()),
            driver(0, 0, Place::cuda(1)),
            driver(0, 4, Place::cuda(2)),
        ];
        let handles = |live, peak| Counted { live, peak };
        run.input.baseline.handles = vec![(gpu(), handles(2, 2)), (Place::cuda(3), handles(0, 0))];
        run.input.end.handles = vec![(gpu(), handles(1, 3)), (Place::cuda(4), handles(0, 5))];
    });
    let tables = device_tables(&check.input);
    let mut shown = Vec::new();
    for table in &tables {
        shown.push(format!("{} {:?}", table.place, table.name));
        shown.extend(table.rows.iter().map(|row| {
            format!(
                "{} {:?} {} {} {:?}",
                row.layer, row.figure, row.baseline, row.after, row.peak
            )
        }));
    }
    assert_eq!(
        shown,
        [
            "cuda:0 Some(\"NVIDIA H200\")",
            "driver Allocated 8 24 Some(48)",
            "pool 0 Reserved 32 0 None",
            "handles Handles 2 1 Some(3)",
            "cuda:2 None",
            "driver Allocated 0 0 Some(4)",
            "cuda:4 None",
            "handles Handles 0 0 Some(5)",
            "host None",
            "driver Allocated 16 0 None",
        ]
    );
}

#[test]
fn a_device_that_was_read_only_in_the_second_run_is_shown_from_that_run() {
    use crate::judge::{ContextLimits, DeviceUsage};
    use crate::ledger::event::ContextUid;
    let device = |used, contexts, code| DeviceUsage {
        place: gpu(),
        context: ContextUid(1),
        used,
        limits: ContextLimits::default(),
        elsewhere: 0,
        contexts,
        code,
    };
    let mut check = check();
    for at in 0..2 {
        check.run(|run| {
            run.input.end.layers = vec![usage(LayerName::Layer(Layer::DRIVER), 8, 0)];
            run.input.end.whole_devices = vec![device(100 << 20, 3, 2)];
            if at == 1 {
                run.input.baseline.layers = vec![usage(LayerName::Layer(Layer::DRIVER), 8, 0)];
                run.input.baseline.whole_devices = vec![device(10 << 20, 1, 2)];
            }
        });
    }
    let whole = |check: &Body| device_tables(&check.input).remove(0).whole;
    let shown = whole(&check).expect("the second run has read it twice");
    assert!(shown.second_run);
    assert_eq!((shown.parts.len(), shown.unexplained), (0, 90 << 20));
    assert_eq!(shown.hints, ["2 more contexts on this device"]);
    // Other processes may have allocated the memory that is not explained.
    let others = ["6 (one)", "7 (two)", "8 (three)", "9 (four)"].map(str::to_owned);
    let second = &mut check.input.runs[1];
    second.baseline.whole_devices = vec![device(100 << 20, 3, 1)];
    let hints_beside = |check: &mut Body, count: usize| {
        check.input.names.neighbours = others[..count].iter().cloned().collect();
        whole(check).expect("it was read twice").hints.join("; ")
    };
    for (count, hint) in [
        (0, "1 more module loaded"),
        (
            1,
            "1 more module loaded; process 6 (one) is also using CUDA",
        ),
        (
            3,
            "1 more module loaded; 3 other processes are using CUDA: 6 (one), 7 (two), 8 (three)",
        ),
        (
            4,
            "1 more module loaded; 4 other processes are using CUDA: 6 (one), 7 (two), 8 (three), …",
        ),
    ] {
        assert_eq!(hints_beside(&mut check, count), hint);
    }
    // With rounds, the first and the last round are compared.
    check.input.facts.rounds = 2;
    assert_eq!(whole(&check), None);
}
