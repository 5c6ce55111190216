use super::{Changes, History, StackId};

const PROGRAM: &str = "1000-5000 r-xp 00000000 08:01 11 /w/train\n";
const RUNTIME: &str = "8000-9000 r-xp 00000000 08:01 12 /opt/libcudart.so.13\n";
const PLUGIN: &str = "8000-9800 r-xp 00000000 08:01 13 /w/libplugin.so\n";

#[test]
fn code_at_the_address_of_unloaded_code_is_distinguished_from_it() {
    let mut history = History {
        changes: None,
        eras: Vec::new(),
        stacks: Vec::new(),
    };
    let changes = |loaded, unloaded| -> Changes { (loaded, unloaded) };
    history.note(changes(2, 0), || [PROGRAM, RUNTIME].concat());
    history.record(StackId(1));
    history.note(changes(2, 0), || panic!("nothing has changed"));
    history.note(changes(2, 1), || PROGRAM.to_owned());
    history.note(changes(3, 1), || [PROGRAM, PLUGIN].concat());
    for stack in [2, 1] {
        history.record(StackId(stack));
    }
    let at = |stack, address| {
        let modules = history
            .era_of(StackId(stack))
            .expect("the backtrace was recorded");
        modules.find(address).expect("a module is there").clone()
    };
    assert_eq!(at(1, 0x8010).name(), "libcudart.so.13");
    assert_eq!(at(2, 0x8010).name(), "libplugin.so");
    let now = history.now();
    assert!(!now.has(&at(1, 0x8010)) && now.has(&at(2, 0x8010)));
    // Modules that stayed loaded are the same objects in both eras.
    assert!(now.has(&at(1, 0x2000)));
    assert_eq!(
        history.era_of(StackId(3)),
        None,
        "the backtrace was not recorded"
    );
}

#[test]
fn a_rebuilt_file_is_another_module() {
    let mut history = History {
        changes: None,
        eras: Vec::new(),
        stacks: Vec::new(),
    };
    let anew = PLUGIN.replace(" 13 ", " 14 ");
    let changes = |loaded, unloaded| -> Changes { (loaded, unloaded) };
    history.note(changes(1, 0), || PLUGIN.to_owned());
    let before = history
        .now()
        .find(0x8010)
        .expect("a module is there")
        .clone();
    history.note(changes(2, 1), || anew);
    assert!(!history.now().has(&before));
}

#[test]
fn a_rebuilt_file_with_the_inode_number_of_the_earlier_one_is_another_module() {
    let mut history = History {
        changes: None,
        eras: Vec::new(),
        stacks: Vec::new(),
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    let maps = || PLUGIN.replace("/w/libplugin.so", &file.path().to_string_lossy());
    let changes = |loaded, unloaded| -> Changes { (loaded, unloaded) };
    history.note(changes(1, 0), maps);
    let before = history
        .now()
        .find(0x8010)
        .expect("a module is there")
        .clone();
    history.note(changes(2, 1), maps);
    assert!(history.now().has(&before));
    let later = before.modified.unwrap() + std::time::Duration::from_secs(1);
    file.as_file().set_modified(later).unwrap();
    history.note(changes(3, 2), maps);
    assert!(!history.now().has(&before));
}
