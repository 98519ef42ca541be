//! Names in a package: for people and terminals.

use crate::error::Fault;
use crate::limits::MAX_TEXT;

/// Characters that turn the direction of text or show nothing: a name with them looks like another one.
const HIDDEN: [std::ops::RangeInclusive<char>; 6] = [
    '\u{200b}'..='\u{200f}',
    '\u{2028}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{feff}'..='\u{feff}',
    '\u{fff9}'..='\u{fffb}',
    '\u{e0000}'..='\u{e007f}',
];

fn is_printable(character: char) -> bool {
    !character.is_control() && !HIDDEN.iter().any(|range| range.contains(&character))
}

/// Refuses names that are too long or that a terminal cannot show.
pub fn check_name(place: &str, name: &str) -> Result<(), Fault> {
    check(place, name, is_printable)
}

/// The same; lines may end.
pub fn check_description(place: &str, text: &str) -> Result<(), Fault> {
    check(place, text, |character| character == '\n' || is_printable(character))
}

fn check(place: &str, text: &str, allowed: fn(char) -> bool) -> Result<(), Fault> {
    if text.len() > MAX_TEXT {
        return Err(Fault::new(place, format!("a text of {} bytes", text.len()), "texts have at most 4096 bytes"));
    }
    match text.chars().find(|character| !allowed(*character)) {
        Some(found) => Err(Fault::new(place, format!("the character {found:?}"), "texts are printable")),
        None => Ok(()),
    }
}
