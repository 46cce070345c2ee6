//! Names that somebody may have meant.

/// Characters of a name that are compared: a longer one takes too long.
const CHARACTERS_MAX: usize = 100;

/// Returns the known name nearest to a misspelled one, if it is near enough to suggest.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let far = (name.chars().count() / 4).max(1) + 1;
    let distances = known.map(|it| (distance(&name, &it.to_lowercase()), it));
    let near = distances.filter(|(distance, it)| *distance <= far.min(it.chars().count() / 2));
    near.min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}

/// Characters to add, remove or replace that make one text the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().take(CHARACTERS_MAX).collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().take(CHARACTERS_MAX).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (at, same) in other.iter().map(|it| *it == letter).enumerate() {
            let replaced = diagonal + usize::from(!same);
            diagonal = row[at + 1];
            row[at + 1] = replaced.min(row[at] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_name_with_a_wrong_letter_is_found_and_another_one_is_not() {
        let known = ["family", "data", "tv", "Backup"];
        let find = |name| nearest(name, known.into_iter());
        assert_eq!(find("famly"), Some("family"));
        assert_eq!(find("DATE"), Some("data"));
        assert_eq!(find("bakcup"), Some("Backup"));
        for other in ["photos", "xy", ""] {
            assert_eq!(find(other), None, "{other}");
        }
    }
}
