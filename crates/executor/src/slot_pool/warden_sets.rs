//! The wardens of a slot for each root that its tasks have used lately.
//!
//! A warden moves into its root when it starts and cannot leave it. Starting one takes milliseconds, so a slot keeps the
//! wardens of a few roots.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Instant;

use model::RootName;
use sandbox::WardenLauncher;

use super::{SlotPool, WARDENS_PER_SLOT, WardenSlot, warden_count};
use crate::cell_roots::{CellRootError, HeldRoot};
use crate::tools::LanguageProbe;

/// For how many roots a slot keeps wardens, with the default root.
pub(super) const ROOTS_PER_SLOT: usize = 4;

/// All wardens of one slot.
pub(super) struct SlotWardens {
    slot: usize,
    /// The wardens in the default root.
    default: WardenSet,
    /// The other places are for named roots.
    named: [Option<WardenSet>; ROOTS_PER_SLOT - 1],
}

/// The wardens of a slot in one root; they alternate.
pub(super) struct WardenSet {
    pub(super) wardens: VecDeque<WardenSlot>,
    pub(super) shell: &'static str,
    /// `None` for the default root.
    root: Option<HeldRoot>,
    used_at: Instant,
}

impl SlotWardens {
    pub(super) fn new(slot: usize, wardens: VecDeque<WardenSlot>, shell: &'static str) -> SlotWardens {
        SlotWardens {
            slot,
            default: WardenSet {
                wardens,
                shell,
                root: None,
                used_at: Instant::now(),
            },
            named: Default::default(),
        }
    }

    /// Where the wardens in the current generation of the root are: 0 is the place of the default root. Wardens of an earlier
    /// generation end: no task of this slot runs in them now.
    pub(super) fn place_in_root(
        &mut self,
        slot_pool: &SlotPool,
        root: Option<&RootName>,
    ) -> Result<usize, CellRootError> {
        let Some(name) = root else {
            return Ok(0);
        };
        let has_name = |set: &Option<WardenSet>| set.as_ref().is_some_and(|set| set.is_in(name));
        let place = match self.named.iter().position(has_name) {
            Some(place) => place,
            None => self.least_used_place(),
        };
        let is_current = |set: &WardenSet| set.is_in(name) && set.is_current(slot_pool);
        if !self.named[place].as_ref().is_some_and(is_current) {
            // The wardens end before others take their numbers.
            self.named[place] = None;
            self.named[place] = Some(slot_pool.new_warden_set(self.slot, place + 1, name)?);
        }
        if let Some(set) = &mut self.named[place] {
            set.used_at = Instant::now();
        }
        Ok(place + 1)
    }

    /// The wardens at a place. A place without any has those of the default root.
    pub(super) fn set_at(&mut self, place: usize) -> &mut WardenSet {
        let named = place.checked_sub(1).and_then(|place| self.named.get_mut(place));
        named.and_then(Option::as_mut).unwrap_or(&mut self.default)
    }

    /// The wardens at two places. `None` if it is the same place.
    pub(super) fn sets_at(
        &mut self,
        first: usize,
        second: usize,
    ) -> Option<(&mut WardenSet, &mut WardenSet)> {
        let named = self.named.iter_mut().map(Option::as_mut);
        let mut sets: Vec<_> = std::iter::once(Some(&mut self.default)).chain(named).collect();
        let first = sets.get_mut(first)?.take()?;
        let second = sets.get_mut(second)?.take()?;
        Some((first, second))
    }

    /// Ends the wardens in the root: they cannot be started, or the root is broken.
    pub(super) fn forget(&mut self, name: &RootName) {
        for set in &mut self.named {
            if set.as_ref().is_some_and(|set| set.is_in(name)) {
                *set = None;
            }
        }
    }

    /// Ends the wardens in roots that were replaced or removed, so that their files can be removed.
    pub(super) fn forget_replaced(&mut self, slot_pool: &SlotPool) {
        for set in &mut self.named {
            let is_current = set.as_ref().is_some_and(|set| set.is_current(slot_pool));
            if !is_current {
                *set = None;
            }
        }
    }

    /// A free place, or that whose root was not used for the longest time.
    fn least_used_place(&self) -> usize {
        let used_at = |place: &usize| self.named[*place].as_ref().map(|set| set.used_at);
        (0..self.named.len()).min_by_key(used_at).unwrap_or(0)
    }
}

impl WardenSet {
    fn is_in(&self, name: &RootName) -> bool {
        self.root.as_ref().is_some_and(|held| held.root.name == *name)
    }

    /// Whether new tasks use this generation of the root.
    fn is_current(&self, slot_pool: &SlotPool) -> bool {
        let held = self.root.as_ref();
        held.is_none_or(|held| slot_pool.roots.is_current(&held.root))
    }

    /// The folder of its generation of the root; `None` is the default root.
    pub(super) fn root_folder(&self) -> Option<PathBuf> {
        self.root.as_ref().map(|held| held.root.folder.clone())
    }

    pub(super) fn is_in_default_root(&self) -> bool {
        self.root.is_none()
    }
}

impl SlotPool {
    /// The probe for languages in a root, or in the default root. Its warden has the number after those of the slots.
    pub(crate) fn language_probe(&self, root: Option<HeldRoot>) -> LanguageProbe {
        let number = warden_count(self.slots) - 1;
        let in_root = root.as_ref().map(|held| (&held.isolation, held.shell));
        let (isolation, shell) = in_root.unwrap_or((&self.launcher.isolation, self.shell));
        LanguageProbe {
            launcher: WardenLauncher {
                isolation: isolation.for_warden(number),
                ..self.launcher.clone()
            },
            shell,
            _root: root,
        }
    }

    /// A set whose wardens start when they are needed. The set with number 0 is that of the default root.
    fn new_warden_set(&self, slot: usize, set: usize, name: &RootName) -> Result<WardenSet, CellRootError> {
        let held = self.roots.hold(name)?;
        let per_slot = WARDENS_PER_SLOT as usize;
        let first = (set * self.slots as usize + slot) * per_slot;
        let wardens = first..first + per_slot;
        Ok(WardenSet {
            wardens: wardens
                .map(|number| self.new_warden_slot(number, &held.isolation))
                .collect(),
            shell: held.shell,
            root: Some(held),
            used_at: Instant::now(),
        })
    }
}
