//! Every scenario, in as many interleavings as its size allows.

use gpu_leak_interleavings::explore::{every_order, many_orders, some_orders};
use gpu_leak_interleavings::scenarios;

/// Defines a test for each scenario, under the scenario's name.
macro_rules! tests {
    ($orders:ident of $module:ident: $($scenario:ident),+ $(,)?) => {
        $(
            #[test]
            fn $scenario() {
                $orders(scenarios::$module::$scenario);
            }
        )+
    };
}

mod gate {
    use super::{every_order, many_orders, scenarios};

    tests!(every_order of gate: two_exclusive_checks, an_exclusive_check_and_a_parallel_one);
    tests!(many_orders of gate:
        a_crowd,
        first_come_first_served,
        no_check_overtakes_a_queued_one,
        queued_parallel_checks_are_inside_together,
        a_check_that_the_one_inside_waits_for,
        a_check_of_the_program_s_own,
        a_panic_inside,
    );
}

mod exclusion {
    use super::{every_order, many_orders, scenarios};

    tests!(every_order of exclusion: a_reading_and_a_destruction);
    tests!(many_orders of exclusion: readings_and_destructions, streams_are_read_under_contexts);
}

mod records {
    use super::{scenarios, some_orders};

    tests!(some_orders of records:
        a_leaking_test_and_a_clean_one,
        a_leaking_test_s_threads_go_on,
        a_thread_outlives_its_test,
        anything_at_once,
        freed_by_another_test,
        freed_twice_at_once,
        a_context_ends,
        one_stack_from_several_threads,
        a_metered_test_and_another,
        opened_by_several_and_closed_by_each,
    );
}
