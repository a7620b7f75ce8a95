//! A sorted map whose copies share their parts: a copy is a reference, and a change of it copies the few
//! parts that lead to what it changes. So the dictionary, of which each definition makes a new one while
//! statements hold older ones, costs a definition the same however many objects there are.
//!
//! ```text
//! root ── inner: key, child │ key, child │ ...        a child's keys are its key or later, and before the
//!                  │                                  next one's; what is before the first key is the first
//!                leaf: key, value │ ...               child's
//! ```
//! - **H1** A part that a copy shares is never changed: it is copied first (`Arc::make_mut`), and so is each
//!   part above it. Parts that nobody shares are changed where they are.
//! - **H2** All leaves are equally far from the root. A part is split when it has more than [`WIDTH`]
//!   entries; one that has few is put to its neighbour where both fit, and one that has none goes.
use std::borrow::Borrow;
use std::fmt;
use std::slice;
use std::sync::Arc;

/// The most entries of a part.
const WIDTH: usize = 32;

pub struct SharedMap<K, V> {
    root: Arc<Node<K, V>>,
    len: usize,
}

#[derive(Clone)]
enum Node<K, V> {
    Leaf(Vec<(K, V)>),
    Inner(Vec<(K, Arc<Node<K, V>>)>),
}

impl<K, V> Clone for SharedMap<K, V> {
    fn clone(&self) -> Self {
        SharedMap { root: self.root.clone(), len: self.len }
    }
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        SharedMap { root: Arc::new(Node::Leaf(Vec::new())), len: 0 }
    }
}

/// The child that has the key, if one has.
fn place<K: Borrow<Q>, V, Q: Ord + ?Sized>(children: &[(K, Arc<Node<K, V>>)], key: &Q) -> usize {
    children.partition_point(|c| c.0.borrow() <= key).saturating_sub(1)
}

/// The later entries of a part that is too wide. Keys that come in order leave full parts behind.
fn split<T>(list: &mut Vec<T>, at: usize) -> Option<Vec<T>> {
    let from = if at + 1 == list.len() { at } else { list.len() / 2 };
    (list.len() > WIDTH).then(|| list.split_off(from))
}

impl<K, V> Node<K, V> {
    fn len(&self) -> usize {
        match self {
            Node::Leaf(list) => list.len(),
            Node::Inner(list) => list.len(),
        }
    }
}

impl<K: Ord + Clone, V: Clone> Node<K, V> {
    /// Gives the value that was there, and what is to stand behind the part.
    fn insert(&mut self, key: K, value: V) -> (Option<V>, Option<(K, Arc<Self>)>) {
        match self {
            Node::Leaf(list) => match list.binary_search_by(|e| e.0.cmp(&key)) {
                Ok(at) => (Some(std::mem::replace(&mut list[at].1, value)), None),
                Err(at) => {
                    list.insert(at, (key, value));
                    (None, split(list, at).map(|l| (l[0].0.clone(), Arc::new(Node::Leaf(l)))))
                }
            },
            Node::Inner(list) => {
                let at = place(list, &key);
                let (old, more) = Arc::make_mut(&mut list[at].1).insert(key, value);
                let Some(more) = more else { return (old, None) };
                list.insert(at + 1, more);
                (old, split(list, at + 1).map(|l| (l[0].0.clone(), Arc::new(Node::Inner(l)))))
            }
        }
    }
    fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        match self {
            Node::Leaf(list) => {
                let at = list.binary_search_by(|e| e.0.borrow().cmp(key)).ok()?;
                Some(list.remove(at).1)
            }
            Node::Inner(list) => {
                let at = place(list, key);
                let gone = Arc::make_mut(&mut list[at].1).remove(key);
                join(list, at);
                gone
            }
        }
    }
}

/// Puts a child of few entries and its neighbour together (H2).
fn join<K: Ord + Clone, V: Clone>(list: &mut Vec<(K, Arc<Node<K, V>>)>, at: usize) {
    let len = list[at].1.len();
    let left = at.saturating_sub(1);
    if len == 0 {
        list.remove(at);
    } else if len < WIDTH / 4
        && list.get(left + 1).is_some_and(|r| list[left].1.len() + r.1.len() <= WIDTH / 2)
    {
        let right = Arc::unwrap_or_clone(list.remove(left + 1).1);
        match (Arc::make_mut(&mut list[left].1), right) {
            (Node::Leaf(l), Node::Leaf(r)) => l.extend(r),
            (Node::Inner(l), Node::Inner(r)) => l.extend(r),
            // H2
            (Node::Leaf(_), Node::Inner(_)) | (Node::Inner(_), Node::Leaf(_)) => {}
        }
    }
}

impl<K: Ord + Clone, V: Clone> SharedMap<K, V> {
    pub fn new() -> Self {
        SharedMap::default()
    }
    /// Gives the value that was there.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let first = match &*self.root {
            Node::Inner(list) => list.first().map(|c| c.0.clone()),
            Node::Leaf(list) => list.first().map(|e| e.0.clone()),
        };
        let (old, more) = Arc::make_mut(&mut self.root).insert(key, value);
        self.len += usize::from(old.is_none());
        if let (Some(more), Some(first)) = (more, first) {
            self.root = Arc::new(Node::Inner(vec![(first, self.root.clone()), more]))
        }
        old
    }
    /// Gives the value that was there.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        // Nothing is copied for nothing.
        self.get(key)?;
        let gone = Arc::make_mut(&mut self.root).remove(key);
        self.len -= usize::from(gone.is_some());
        loop {
            let only = match &*self.root {
                Node::Inner(list) if list.len() == 1 => list[0].1.clone(),
                Node::Inner(list) if list.is_empty() => Arc::new(Node::Leaf(Vec::new())),
                _ => return gone,
            };
            self.root = only
        }
    }
    pub fn retain(&mut self, mut is_kept: impl FnMut(&K, &V) -> bool) {
        let gone: Vec<K> = self.iter().filter(|(k, v)| !is_kept(k, v)).map(|(k, _)| k.clone()).collect();
        gone.iter().for_each(|k| drop(self.remove(k)))
    }
}

impl<K, V> SharedMap<K, V> {
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let mut node = &self.root;
        loop {
            match &**node {
                Node::Leaf(list) => {
                    let at = list.binary_search_by(|e| e.0.borrow().cmp(key)).ok()?;
                    return Some(&list[at].1);
                }
                Node::Inner(list) => node = &list[place(list, key)].1,
            }
        }
    }
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }
    /// Those of the key and later ones, in order.
    pub fn from<Q: Ord + ?Sized>(&self, key: &Q) -> Iter<'_, K, V>
    where
        K: Borrow<Q>,
    {
        let mut inner = Vec::new();
        let mut node = &self.root;
        loop {
            match &**node {
                Node::Leaf(list) => {
                    let leaf = list[list.partition_point(|e| e.0.borrow() < key)..].iter();
                    return Iter { inner, leaf };
                }
                Node::Inner(list) => {
                    let at = place(list, key);
                    inner.push(list[at + 1..].iter());
                    node = &list[at].1
                }
            }
        }
    }
    pub fn iter(&self) -> Iter<'_, K, V> {
        let mut iter = Iter { inner: Vec::new(), leaf: [].iter() };
        iter.enter(&self.root);
        iter
    }
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|e| e.0)
    }
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|e| e.1)
    }
    pub fn len(&self) -> usize {
        self.len
    }
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Whether it is the same map, and not only an equal one: known without a look at the entries.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.root, &other.root)
    }
}

/// The entries in the order of their keys.
pub struct Iter<'a, K, V> {
    /// What is left of the parts above the leaf.
    inner: Vec<slice::Iter<'a, (K, Arc<Node<K, V>>)>>,
    leaf: slice::Iter<'a, (K, V)>,
}

impl<'a, K, V> Iter<'a, K, V> {
    /// Goes on with the first leaf of the part.
    fn enter(&mut self, mut node: &'a Node<K, V>) {
        loop {
            match node {
                Node::Leaf(list) => {
                    self.leaf = list.iter();
                    return;
                }
                Node::Inner(list) => {
                    let mut children = list.iter();
                    let Some(first) = children.next() else { return };
                    self.inner.push(children);
                    node = &first.1
                }
            }
        }
    }
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((k, v)) = self.leaf.next() {
                return Some((k, v));
            }
            match self.inner.last_mut()?.next() {
                Some((_, node)) => self.enter(node),
                None => drop(self.inner.pop()),
            }
        }
    }
}

impl<'a, K, V> IntoIterator for &'a SharedMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;
    fn into_iter(self) -> Iter<'a, K, V> {
        self.iter()
    }
}

impl<K: Ord + Clone, V: Clone> Extend<(K, V)> for SharedMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        entries.into_iter().for_each(|(k, v)| drop(self.insert(k, v)))
    }
}

impl<K: Ord + Clone, V: Clone> FromIterator<(K, V)> for SharedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = SharedMap::default();
        map.extend(entries);
        map
    }
}

impl<K: Ord + Clone, V: Clone, const N: usize> From<[(K, V); N]> for SharedMap<K, V> {
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for SharedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for SharedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn depth<K, V>(node: &Node<K, V>, is_root: bool) -> usize {
        match node {
            Node::Leaf(list) => {
                assert!(list.len() <= WIDTH && (is_root || !list.is_empty()));
                1
            }
            Node::Inner(list) => {
                assert!(list.len() <= WIDTH && list.len() > usize::from(is_root));
                let depths: Vec<usize> = list.iter().map(|c| depth(&c.1, false)).collect();
                assert!(depths.iter().all(|d| *d == depths[0]), "H2: {depths:?}");
                depths[0] + 1
            }
        }
    }

    #[test]
    fn it_is_a_sorted_map_and_copies_stay_as_they_were() {
        let mut state = 7u64;
        println!("seed {state}");
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let mut map = SharedMap::new();
        let mut model = BTreeMap::new();
        let mut copies = vec![];
        for step in 0..30_000u64 {
            // It grows, and shrinks again to nothing.
            let grows = step < 15_000;
            let key = random(4000);
            match random(10) < if grows { 7 } else { 3 } {
                true => assert_eq!(map.insert(key, step), model.insert(key, step)),
                false => assert_eq!(map.remove(&key), model.remove(&key)),
            }
            assert_eq!(map.len(), model.len());
            assert_eq!(map.get(&key), model.get(&key));
            if step % 1500 == 0 {
                depth(&map.root, true);
                let from = random(4000);
                assert!(map.from(&from).eq(model.range(from..)));
                copies.push((map.clone(), model.clone()))
            }
        }
        copies.push((map.clone(), model.clone()));
        for key in 0..4000 {
            assert_eq!(map.remove(&key), model.remove(&key))
        }
        assert!(map.is_empty() && map.iter().next().is_none());
        depth(&map.root, true);
        // H1
        for (map, model) in copies {
            assert!(map.iter().eq(model.iter()) && map == model.into_iter().collect())
        }
    }

    #[test]
    fn a_change_copies_what_leads_to_it() {
        let map: SharedMap<u32, u32> = (0..100_000).map(|n| (n, n)).collect();
        assert!(depth(&map.root, true) <= 4, "keys in order leave full parts");
        let mut next = map.clone();
        assert!(next.is_same(&map));
        next.insert(50_000, 1);
        fn shared(a: &Node<u32, u32>, b: &Node<u32, u32>) -> (usize, usize) {
            let (Node::Inner(a), Node::Inner(b)) = (a, b) else { return (0, 1) };
            let mut sum = (0, 1);
            for (a, b) in a.iter().zip(b) {
                let (s, c) = if Arc::ptr_eq(&a.1, &b.1) { (1, 0) } else { shared(&a.1, &b.1) };
                sum = (sum.0 + s, sum.1 + c)
            }
            sum
        }
        let (_, copied) = shared(&map.root, &next.root);
        assert_eq!(copied, depth(&map.root, true));
    }
}
