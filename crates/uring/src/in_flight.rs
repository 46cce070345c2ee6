//! Storage of the operations in flight.

/// A bounded slab. A key never refers to a later value in the same slot.
///
/// Invariant: `free` lists exactly the slots without a value. Memory for all slots is reserved once
/// and they do not move, so memory inside a value stays in place until the value is removed. A slot
/// is touched when it is first needed: a worker that never has many operations in flight does not
/// pay for the memory of many.
#[derive(Debug)]
pub(crate) struct InFlight<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    values_max: usize,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// Identifies a value until it is removed, and no later value (for 2^31 reuses of the slot).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    /// The key in 63 bits; the caller may use the highest bit.
    pub(crate) fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        let (index, generation) = (bits & u64::from(u32::MAX), bits >> 32);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "both are 32 bits wide after the split"
        )]
        Self { index: index as u32, generation: generation as u32 }
    }
}

impl<T> InFlight<T> {
    pub(crate) fn new(values_max: u32) -> Self {
        let values_max = values_max as usize;
        Self { slots: Vec::with_capacity(values_max), free: Vec::new(), values_max }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn values_max(&self) -> usize {
        self.values_max
    }

    /// Inserts a value, or returns it if every slot is taken.
    pub(crate) fn insert(&mut self, value: T) -> Result<Key, T> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() == self.values_max => return Err(value),
            None => {
                self.slots.push(Slot { generation: 0, value: None });
                u32::try_from(self.slots.len() - 1).expect("values_max has 32 bits")
            }
        };
        let slot = &mut self.slots[index as usize];
        assert!(slot.value.is_none(), "a free slot holds no value");
        slot.value = Some(value);
        Ok(Key { index, generation: slot.generation })
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation == key.generation { slot.value.as_mut() } else { None }
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1) & (u32::MAX >> 1);
        self.free.push(key.index);
        Some(value)
    }

    /// The keys of the matching values, in no particular order.
    pub(crate) fn find(&self, matches: impl Fn(&T) -> bool) -> Vec<Key> {
        (0..)
            .zip(&self.slots)
            .filter(|(_, slot)| slot.value.as_ref().is_some_and(&matches))
            .map(|(index, slot)| Key { index, generation: slot.generation })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_does_not_reach_its_successor() {
        let mut in_flight = InFlight::new(1);
        let first = in_flight.insert("first").expect("a slot is free");
        assert_eq!(in_flight.insert("second"), Err("second"));
        assert_eq!(in_flight.remove(first), Some("first"));
        let second = in_flight.insert("second").expect("a slot is free");
        assert_eq!(in_flight.get_mut(first), None);
        assert_eq!(in_flight.remove(first), None);
        assert_eq!(Key::from_bits(second.to_bits()), second);
        assert_eq!(in_flight.get_mut(second), Some(&mut "second"));
        assert_eq!(in_flight.len(), 1);
    }
}
