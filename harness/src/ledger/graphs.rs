//! What graphs and executable graphs hold beside their own handles: references to user objects.

use rustc_hash::FxHashMap;

use super::event::Key;

/// Graphs and executable graphs.
#[derive(Debug, Default)]
pub(super) struct Graphs(FxHashMap<Key, Graph>);

/// What one of them holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Graph {
    /// How many references it has to each user object.
    objects: FxHashMap<Key, u64>,
}

impl Graph {
    /// The user objects that it refers to, and how often.
    pub(super) fn objects(&self) -> impl Iterator<Item = (&Key, &u64)> {
        self.objects.iter()
    }
}

impl Graphs {
    /// `graph` has so many references more.
    pub(super) fn retained(&mut self, graph: Key, object: Key, count: u64) {
        let graph = self.0.entry(graph).or_default();
        *graph.objects.entry(object).or_default() += count;
    }

    /// `graph` gives back so many references, or as many as it has. Answers how many.
    pub(super) fn released(&mut self, graph: &Key, object: &Key, count: u64) -> u64 {
        let graph = self.0.get_mut(graph);
        let Some(references) = graph.and_then(|graph| graph.objects.get_mut(object)) else {
            return 0;
        };
        let count = count.min(*references);
        *references -= count;
        count
    }

    /// What `graph` holds.
    pub(super) fn get(&self, graph: &Key) -> Option<&Graph> {
        self.0.get(graph)
    }

    /// `to` was made from `from` and holds the same. Answers what it held before, under a name of
    /// something that ended unseen.
    pub(super) fn copied(&mut self, from: &Key, to: Key) -> Option<Graph> {
        let Some(graph) = self.0.get(from).cloned() else {
            return self.0.remove(&to);
        };
        self.0.insert(to, graph)
    }

    /// The executable graph's nodes are those of `graph` now. Answers what it referred to before.
    pub(super) fn updated(&mut self, exec: Key, graph: &Key) -> Graph {
        let objects = self.0.get(graph).map(|graph| graph.objects.clone());
        let exec = self.0.entry(exec).or_default();
        Graph {
            objects: std::mem::replace(&mut exec.objects, objects.unwrap_or_default()),
        }
    }

    /// Takes everything that `graph` holds.
    pub(super) fn take(&mut self, graph: &Key) -> Option<Graph> {
        self.0.remove(graph)
    }

    /// Puts it back: the call that was to end it has failed.
    pub(super) fn put_back(&mut self, key: Key, graph: Graph) {
        self.0.entry(key).or_insert(graph);
    }
}
