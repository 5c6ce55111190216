//! The resources that graphs and executable graphs hold in addition to their own handles:
//! references to user objects, and the memory of their nodes.
//!
//! The memory of an alloc node is allocated by a launch and lives until something frees it: a free
//! node of the same or another graph, or a plain free. Destroying the graph or the executable graph
//! does not free it. So this module stores for each graph what a launch will allocate and free, and
//! copies this to graphs that are created from it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::event::{Creation, Key, StackId};
use super::meter::{GraphUsage, SiteUsage};
use super::name::Place;
use super::usage::Amount;

/// Graphs, executable graphs, and streams whose capture does not have a graph handle yet.
#[derive(Debug, Default)]
pub(super) struct Graphs {
    pub(super) all: FxHashMap<Key, Graph>,
}

/// The resources that one graph holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Graph {
    /// The number of the graph's references to each user object.
    objects: FxHashMap<Key, u64>,
    /// The memory that the graph's nodes allocate and do not free.
    allocations: Allocations,
    /// The addresses that the graph's nodes free and do not allocate.
    frees: Vec<u64>,
    /// Whether a launch frees the memory left by the previous launch.
    auto_free: bool,
    /// The nodes that allocate and free, in the order in which they were added, if a log is kept.
    nodes: Vec<Node>,
}

#[derive(Clone, Copy, Debug)]
enum Node {
    Allocates(Creation),
    Frees(u64),
}

/// The allocations of nodes. A graph may have thousands of them, and free each one, so finding the
/// latest allocation at an address must be fast.
#[derive(Clone, Debug, Default)]
struct Allocations {
    /// The allocations, by address and by the number of earlier allocations.
    made: BTreeMap<(u64, u64), Creation>,
    /// The number of allocations so far, freed or not.
    count: u64,
}

impl Allocations {
    fn push(&mut self, made: Creation) {
        self.made.insert((made.key.value(), self.count), made);
        self.count += 1;
    }

    /// Removes the latest allocation at `address`. Returns whether there was one.
    fn remove(&mut self, address: u64) -> bool {
        let at_address = self.made.range((address, 0)..=(address, u64::MAX));
        let latest = at_address.map(|(key, _)| *key).next_back();
        latest.is_some_and(|latest| self.made.remove(&latest).is_some())
    }

    /// Adds the allocations of `later` after these.
    fn append(&mut self, later: Self) {
        let before = self.count;
        let made = later.made.into_iter();
        let made = made.map(|((address, number), made)| ((address, before + number), made));
        self.made.extend(made);
        self.count += later.count;
    }
}

/// The effect of a launch on memory.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    /// The memory that the launch allocates and does not free.
    pub(super) allocations: Vec<Creation>,
    /// The addresses that the launch frees.
    pub(super) frees: Vec<u64>,
    /// Whether the launch frees the memory left by the previous launch.
    pub(super) auto_free: bool,
}

impl Graph {
    /// Adds an address that the graph's nodes free.
    fn free(&mut self, address: u64) {
        if !self.allocations.remove(address) {
            self.frees.push(address);
        }
    }

    /// Returns the user objects that the graph refers to, with the number of references.
    pub(super) fn objects(&self) -> impl Iterator<Item = (&Key, &u64)> {
        self.objects.iter()
    }

    /// Returns the memory of the graph's nodes at each place. Only nodes that were logged are
    /// included.
    pub(super) fn usage(&self) -> Vec<GraphUsage> {
        let mut places: BTreeMap<Place, Vec<Node>> = BTreeMap::new();
        let mut place_of: FxHashMap<u64, Place> = FxHashMap::default();
        for node in &self.nodes {
            let place = match node {
                Node::Allocates(made) => {
                    place_of.insert(made.key.value(), made.place);
                    Some(made.place)
                }
                Node::Frees(address) => place_of.get(address).copied(),
            };
            if let Some(place) = place {
                places.entry(place).or_default().push(*node);
            }
        }
        let usage = places
            .into_iter()
            .map(|(place, nodes)| usage_of(place, &nodes));
        usage.collect()
    }
}

fn usage_of(place: Place, nodes: &[Node]) -> GraphUsage {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    let mut sites: BTreeMap<StackId, Amount> = BTreeMap::new();
    let mut held: FxHashMap<u64, u64> = FxHashMap::default();
    let (mut live, mut in_order): (u64, u64) = (0, 0);
    for node in nodes {
        match node {
            Node::Allocates(made) => {
                let (address, bytes) = (made.key.value(), made.bytes);
                ranges.push((address, address.saturating_add(bytes)));
                sites.entry(made.caller.stack).or_default().add(bytes);
                live = live.saturating_add(bytes);
                live = live.saturating_sub(held.insert(address, bytes).unwrap_or(0));
                in_order = in_order.max(live);
            }
            Node::Frees(address) => live = live.saturating_sub(held.remove(address).unwrap_or(0)),
        }
    }
    ranges.sort_unstable();
    let (mut bytes, mut covered) = (0, 0);
    for (begin, end) in ranges {
        bytes += end.saturating_sub(begin.max(covered));
        covered = covered.max(end);
    }
    let mut sites: Vec<_> = (sites.into_iter())
        .map(|(stack, amount)| SiteUsage::of(stack, amount))
        .collect();
    sites.sort_by_key(|site| Reverse(site.bytes));
    GraphUsage {
        place,
        bytes,
        in_order,
        sites,
    }
}

impl Graphs {
    /// Adds `count` references of `graph`.
    pub(super) fn retained(&mut self, graph: Key, object: Key, count: u64) {
        let graph = self.all.entry(graph).or_default();
        let references = graph.objects.entry(object).or_default();
        *references = references.saturating_add(count);
    }

    /// Removes up to `count` references of `graph`, and returns how many were removed.
    pub(super) fn released(&mut self, graph: &Key, object: &Key, count: u64) -> u64 {
        let graph = self.all.get_mut(graph);
        let Some(references) = graph.and_then(|graph| graph.objects.get_mut(object)) else {
            return 0;
        };
        let count = count.min(*references);
        *references -= count;
        count
    }

    /// Adds a node to `graph` that allocates.
    pub(super) fn allocates(&mut self, graph: Key, made: Creation, is_logged: bool) {
        let graph = self.all.entry(graph).or_default();
        graph.allocations.push(made);
        if is_logged {
            graph.nodes.push(Node::Allocates(made));
        }
    }

    /// Adds a node to `graph` that frees.
    pub(super) fn frees(&mut self, graph: Key, address: u64) {
        let graph = self.all.entry(graph).or_default();
        if !graph.nodes.is_empty() {
            graph.nodes.push(Node::Frees(address));
        }
        graph.free(address);
    }

    /// Returns the effect that launching an executable graph has on memory, or `None` if none of
    /// its nodes allocates or frees.
    pub(super) fn launch(&self, exec: &Key) -> Option<Launch> {
        let graph = self.all.get(exec)?;
        let has_memory = !(graph.allocations.made.is_empty() && graph.frees.is_empty());
        has_memory.then(|| Launch {
            allocations: graph.allocations.made.values().copied().collect(),
            frees: graph.frees.clone(),
            auto_free: graph.auto_free,
        })
    }

    /// Records that `to` was created or updated from `from` and holds the same resources. Returns
    /// what `to` held before. It held something if this is an update, or if the end of an earlier
    /// graph with this handle was missed.
    pub(super) fn copied(&mut self, from: &Key, to: Key, auto_free: bool) -> Option<Graph> {
        let Some(graph) = self.all.get(from).cloned() else {
            return self.all.remove(&to);
        };
        self.all.insert(to, Graph { auto_free, ..graph })
    }

    /// Records that the executable graph now has the nodes and the references of `graph`, and
    /// returns those that it had before. Launches after the update do not free what launches before
    /// it left.
    pub(super) fn updated(&mut self, exec: Key, graph: &Key) -> Option<Graph> {
        let auto_free = self.all.get(&exec).is_some_and(|exec| exec.auto_free);
        self.copied(graph, exec, auto_free)
    }

    /// Moves the nodes and the references of a capture or of a graph to `graph`.
    pub(super) fn moved(&mut self, from: &Key, graph: Key) {
        if let Some(moved) = self.all.remove(from) {
            for (object, count) in moved.objects {
                self.retained(graph, object, count);
            }
            let graph = self.all.entry(graph).or_default();
            // The nodes of a child graph may free memory of its parent.
            for address in moved.frees {
                graph.free(address);
            }
            graph.allocations.append(moved.allocations);
            graph.nodes.extend(moved.nodes);
        }
    }
}
