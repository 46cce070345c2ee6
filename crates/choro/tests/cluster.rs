//! Real nodes of CTDB in namespaces: what the crate `ctdb` and two commands make of them.
//!
//! `make test` starts one node, in ten seconds; with CHORO_CLUSTER_NODES=3, as `make cluster-test`
//! and `make nightly` set it, there are three. Without root or Debian's package `ctdb` all is left
//! out, in words. One test function starts the nodes, as no two tests could do with them what they
//! do; each claim is a function, whose name is printed.

#![expect(clippy::print_stderr, reason = "each check is told, and why all are left out")]

mod choro;
#[path = "cluster/commands.rs"]
mod commands;
#[path = "cluster/events.rs"]
mod events;
#[path = "cluster/lab.rs"]
mod lab;
#[path = "cluster/process.rs"]
mod process;
#[path = "cluster/records.rs"]
mod records;

use lab::Lab;

/// Variable with the number of nodes, one if it is not set.
const NODES: &str = "CHORO_CLUSTER_NODES";

#[test]
fn nodes_of_ctdb_do_as_the_design_says() {
    let count = std::env::var(NODES).map_or(1, |text| text.parse().expect("a number of nodes"));
    let Some(lab) = Lab::start(count) else { return };
    let run = |name: &str, check: fn(&Lab)| {
        eprintln!("{name}");
        check(&lab);
    };
    run("a node tells its state", commands::a_node_tells_its_state);
    run("check says what is wrong", commands::check_names_faults_and_refuses);
    run("a record is new, changed, deleted", records::a_record_is_made_changed_and_deleted);
    run("a transaction counts", records::a_transaction_is_read_on_its_node);
    run("messages arrive", records::messages_arrive_at_the_service_they_are_for);
    if count >= 3 {
        run("a record goes round", records::a_record_goes_round_all_nodes);
        run("a traverse has all records", records::a_traverse_has_the_records_of_all_nodes);
        run("messages between nodes", records::messages_arrive_from_other_nodes);
        run("a death is told", records::the_end_of_a_client_is_told_to_all_nodes);
        run("an address moves", events::an_address_that_moves_is_told_on_both_nodes);
        run("a recovery ends", events::after_a_recovery_records_are_where_they_can_be_used);
        run("a stopped node", events::a_stopped_node_finds_all_records_busy_until_it_continues);
        run("a killed ctdbd", events::a_killed_ctdbd_ends_its_connections_and_others_go_on);
    }
    // The last ones, as they stop or end a ctdbd.
    run("a frozen ctdbd", events::a_ctdbd_that_stands_still_blocks_nobody);
    run("no ctdbd", commands::without_ctdbd_there_is_one_line);
}
