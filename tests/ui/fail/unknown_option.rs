use gpu_leak_check::gpu_leak_check;

#[gpu_leak_check(tolerence = 1)]
#[test]
fn misspelt() {}

#[gpu_leak_check(frobnicate)]
#[test]
fn unheard_of() {}
