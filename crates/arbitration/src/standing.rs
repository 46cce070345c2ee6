//! How much of what there is room for one client may take.

/// Who takes a place among the opens or locks of a file, or of all files.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Standing {
    /// A user whom the server knows.
    #[default]
    User,
    /// A guest, or nobody in particular: anyone can be that, so it has a quarter of a user's part.
    Guest,
}

impl Standing {
    /// True if a client with `own` of `max` places may take `wanted` more beside `others`.
    ///
    /// Its share is one of `parts` of the places that other clients left, not of `max`: so many
    /// greedy clients still leave places to a new one.
    #[must_use]
    pub fn has_room(
        self,
        (max, parts): (usize, usize),
        (others, own, wanted): (usize, usize, usize),
    ) -> bool {
        let parts = match self {
            Self::User => parts,
            Self::Guest => parts * 4,
        };
        own + wanted <= max.saturating_sub(others) / parts
    }
}
