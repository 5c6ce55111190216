//! The planted leaks leave exactly what the catalogue says.

use gpu_leak_kernels::planted::{CATALOGUE, Layer, Planted};
use gpu_leak_kernels::{Device, Result, memory};

/// The number of blocks and of bytes that are handed out.
fn held(device: &Device) -> (u64, u64) {
    let stats = memory::stats(device);
    (stats.active.all.current, stats.allocated_bytes.all.current)
}

fn caching() -> impl Iterator<Item = &'static Planted> {
    CATALOGUE
        .iter()
        .filter(|planted| planted.layer == Layer::Caching)
}

#[test]
fn every_leak_leaves_the_blocks_and_bytes_of_the_catalogue() -> Result<()> {
    for planted in caching() {
        let device = Device::embedded()?;
        planted.run(&device)?;
        assert_eq!(
            held(&device),
            (planted.count(), planted.bytes()),
            "{}",
            planted.name
        );
        memory::empty_cache(&device)?;
        assert_eq!(
            memory::reserved(&device),
            planted.reserved,
            "{}",
            planted.name
        );
    }
    Ok(())
}

#[test]
fn every_leak_leaves_as_much_again_at_a_second_call() -> Result<()> {
    for planted in caching() {
        let device = Device::embedded()?;
        planted.run(&device)?;
        let before = memory::stats(&device).allocation.all;
        planted.run(&device)?;
        let after = memory::stats(&device).allocation.all;
        assert!(after.current >= before.current, "{}", planted.name);
        assert!(after.allocated - before.allocated >= planted.count());
    }
    Ok(())
}

#[test]
fn every_leaking_line_is_marked_in_its_file() {
    for planted in CATALOGUE {
        let source = std::fs::read_to_string(
            std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
                .parent()
                .unwrap()
                .join(planted.file),
        )
        .unwrap();
        let lines: Vec<&str> = source.lines().collect();
        for site in planted.sites {
            let line = lines[planted.line(site) as usize - 1];
            assert!(line.contains(&format!("leak: {}", site.mark)), "{line}");
        }
        assert_eq!(source.matches("// leak: ").count(), planted.sites.len());
    }
}

#[test]
fn only_a_cuda_device_can_leak_resources_of_the_driver() -> Result<()> {
    let device = Device::embedded()?;
    for planted in CATALOGUE
        .iter()
        .filter(|planted| planted.layer == Layer::Driver)
    {
        assert!(planted.run(&device).is_err(), "{}", planted.name);
    }
    Ok(())
}
