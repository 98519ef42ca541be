use crate::Accesses;
use crate::cache::{Fate, Policy, PolicyEntry, run};

pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "most-recent",
    summary: "evicts what was used last: good where a program cycles over more keys than fit",
    optimal: false,
    knows_future: false,
    replay: |accesses, capacity, detail, watch| run(accesses, capacity, MostRecent::new(accesses), detail, watch),
};

/// The residents, last used last.
pub struct MostRecent {
    stack: Vec<u32>,
}

impl MostRecent {
    pub fn new(_accesses: &Accesses<'_>) -> Self {
        Self { stack: Vec::new() }
    }
}

impl Policy for MostRecent {
    fn touch(&mut self, object: u32, _at: u32) -> Fate {
        self.stack.retain(|&other| other != object);
        self.stack.push(object);
        Fate::Keep
    }

    fn make_room(&mut self, object: u32, _at: u32, needed: u64, resident: &[u64], victims: &mut Vec<u32>) -> bool {
        let mut freed = 0;
        while freed < needed {
            let Some(last) = self.stack.iter().rposition(|&other| other != object) else { break };
            let victim = self.stack.remove(last);
            freed += resident[victim as usize];
            victims.push(victim);
        }
        true
    }

    fn insert(&mut self, object: u32, _at: u32, _bytes: u64) {
        self.stack.push(object);
    }
}
