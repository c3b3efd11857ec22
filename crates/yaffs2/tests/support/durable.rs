//! The model, with what a loss of power may leave of each object: each chunk of a file as at some moment since it was
//! last brought to the chip, a size of these, times of these.

use super::shape::Shape;
use pocketstone_fstest::model::{Id, Object};
use pocketstone_fstest::{Content, Model, Op, Outcome, Target, Times, Tree, differences};
use std::collections::{BTreeMap, BTreeSet};

/// What an object was since it was last brought to the chip.
#[derive(Debug, Clone)]
struct Since {
    versions: Vec<Content>,
    sizes: BTreeSet<u64>,
    times: Vec<Times>,
}

impl Since {
    /// All of it is on the chip.
    fn settled(object: &Object) -> Since {
        Since {
            versions: vec![object.content.clone()],
            sizes: BTreeSet::from([object.content.size()]),
            times: vec![object.times],
        }
    }

    fn push(&mut self, object: &Object) {
        self.versions.push(object.content.clone());
        self.sizes.insert(object.content.size());
        self.times.push(object.times);
    }

    /// Sizes of whole chunks that a file has on its way from one size to a larger one.
    fn grows(&mut self, from: u64, to: u64, chunk: u64) {
        self.sizes.extend((from / chunk + 1..=to / chunk).map(|number| number * chunk));
    }
}

#[derive(Debug, Clone)]
pub struct Durable {
    pub model: Model,
    since: BTreeMap<Id, Since>,
    chunk_bytes: u64,
}

/// The file whose size or bytes an operation changes.
pub fn changed(op: &Op) -> Option<Target> {
    match op {
        Op::Write(target, ..) | Op::Append(target, ..) | Op::Truncate(target, _) => Some(target.clone()),
        Op::SetSize(path, _) => Some(Target::Path(path.clone())),
        _ => None,
    }
}

impl Durable {
    pub fn new(shape: &Shape) -> Durable {
        let mut model = Model::new(shape.has(), 0o755, 0, 0);
        model.apply(&Op::Mkdir("/lost+found".into(), 0o700));
        let mut durable = Durable { model, since: BTreeMap::new(), chunk_bytes: shape.chunk_bytes() };
        durable.settle_all();
        durable
    }

    /// The file that an operation changes, if it is there.
    pub fn file(&self, target: Option<&Target>) -> Option<Id> {
        target.and_then(|target| self.model.file(target).ok().flatten())
    }

    pub fn content(&self, id: Id) -> &Content {
        &self.model.object(id).content
    }

    pub fn apply(&mut self, op: &Op) -> Outcome {
        let file = self.file(changed(op).as_ref());
        let old = file.map_or(0, |id| self.content(id).size());
        let outcome = self.model.apply(op);
        if matches!(outcome, Outcome::Failed(_) | Outcome::Skipped) {
            return outcome;
        }
        if let Some(id) = file {
            let object = self.model.object(id);
            let since = self.since.get_mut(&id).expect("it was there before");
            let (size, chunk) = (object.content.size(), self.chunk_bytes);
            since.grows(old, size, chunk);
            if let (Op::Write(_, offset, ..), true) = (op, old < size) {
                // The hole, and then what is written.
                since.sizes.extend([old, *offset.max(&old)]);
            }
            since.push(object);
        }
        match op {
            Op::SyncFile(target) => self.model.file(target).ok().flatten().iter().for_each(|id| self.settle_one(*id)),
            Op::Sync => self.settle_all(),
            // They are on the chip at once, and the times with them.
            Op::Chmod(path, ..)
            | Op::Chown(path, ..)
            | Op::Times(path, ..)
            | Op::SetXattr(path, ..)
            | Op::RemoveXattr(path, ..) => {
                let id = self.model.walk(path).expect("it was there a moment ago");
                self.since.get_mut(&id).expect("it was there before").times = vec![self.model.object(id).times];
            }
            _ => {}
        }
        self.follow();
        outcome
    }

    /// New objects, and times that have changed.
    fn follow(&mut self) {
        let objects = self.model.objects();
        self.since.retain(|id, _| objects.contains_key(id));
        for (id, object) in objects {
            let since = self.since.entry(*id).or_insert_with(|| Since::settled(object));
            if since.times.last() != Some(&object.times) {
                since.times.push(object.times);
            }
        }
    }

    /// What an operation that returned has made durable, beyond what [`Durable::apply`] knows.
    pub fn settle(&mut self, op: &Op) {
        if let Op::Truncate(..) | Op::SetSize(..) = op {
            self.file(changed(op).as_ref()).into_iter().for_each(|id| self.settle_one(id));
        }
    }

    fn settle_one(&mut self, id: Id) {
        self.since.insert(id, Since::settled(self.model.object(id)));
    }

    /// Everything is on the chip.
    pub fn settle_all(&mut self) {
        self.since = self.model.objects().iter().map(|(id, object)| (*id, Since::settled(object))).collect();
    }

    /// Nothing is open any more; what had no name is gone.
    pub fn restart(&mut self) {
        self.model.restart();
        self.follow();
    }

    /// A file is what the volume says: an operation on it failed on the way to what `full` is.
    pub fn adopt_file(&mut self, id: Id, full: &Durable, content: Content, times: Times) {
        let object = self.model.object_mut(id);
        (object.content, object.times) = (content, times);
        let mut since = full.since[&id].clone();
        since.times = self.since[&id].times.clone();
        since.push(object);
        self.since.insert(id, since);
    }

    /// All is what a volume shows, and durable.
    pub fn adopt(&mut self, tree: &Tree) {
        for (path, leaf) in tree {
            let id = self.model.walk(path).expect("compared before");
            let object = self.model.object_mut(id);
            object.content = leaf.content.clone();
            object.times = leaf.times.expect("times are compared");
        }
        self.settle_all();
    }

    /// Whether a tree is exactly this.
    ///
    /// # Errors
    /// A `String` with the differences, each on a line.
    pub fn compare(&self, tree: &Tree) -> Result<(), String> {
        let lines = differences(tree, &self.model.tree());
        if lines.is_empty() { Ok(()) } else { Err(lines.join("\n")) }
    }

    /// Whether a loss of power may have left a tree.
    ///
    /// # Errors
    /// A `String` with the first difference in a file or its times, or else with all differences.
    pub fn compare_after_loss(&self, tree: &Tree) -> Result<(), String> {
        let mut want = self.model.tree();
        for (path, leaf) in tree {
            let Some(wanted) = want.get_mut(path) else { return Err(format!("{path} should not exist")) };
            let id = self.model.walk(path).expect("it is in the tree");
            let since = &self.since[&id];
            let times = leaf.times.expect("times are compared");
            let known = (0..3).all(|which| since.times.iter().any(|known| known[which] == times[which]));
            if !known {
                return Err(format!("{path}: times {times:?}, should be of {:?}", since.times));
            }
            let size = leaf.content.size();
            if !since.sizes.contains(&size) {
                return Err(format!("{path}: {size} bytes, should be of {:?}", since.sizes));
            }
            let strange = (0..size.div_ceil(self.chunk_bytes)).find(|number| !self.is_known(since, leaf, *number));
            if let Some(number) = strange {
                let versions = since.versions.len();
                return Err(format!("{path}: chunk {number} of {size} bytes is none of {versions} versions"));
            }
            (wanted.content, wanted.times) = (leaf.content.clone(), leaf.times);
        }
        let lines = differences(tree, &want);
        if lines.is_empty() { Ok(()) } else { Err(lines.join("\n")) }
    }

    /// A chunk is that of a version, and zeros behind that one's end.
    fn is_known(&self, since: &Since, leaf: &pocketstone_fstest::Leaf, number: u64) -> bool {
        let from = number * self.chunk_bytes;
        let part = leaf.content.read(from, self.chunk_bytes);
        since.versions.iter().rev().any(|version| {
            let known = version.read(from, part.len() as u64);
            part.starts_with(&known) && part[known.len()..].iter().all(|byte| *byte == 0)
        })
    }
}
