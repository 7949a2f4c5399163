//! The 16 basic colours of terminals, and the nearest of them to any other colour.

/// What terminals usually show as the 16 colours. The page has others, with more contrast.
const PALETTE: [(u8, u8, u8); 16] = [
    (0, 0, 0),
    (205, 0, 0),
    (0, 205, 0),
    (205, 205, 0),
    (0, 0, 238),
    (205, 0, 205),
    (0, 205, 205),
    (229, 229, 229),
    (127, 127, 127),
    (255, 0, 0),
    (0, 255, 0),
    (255, 255, 0),
    (92, 92, 255),
    (255, 0, 255),
    (0, 255, 255),
    (255, 255, 255),
];

/// The basic colour that is nearest to one of the 256 indexed colours.
pub(super) fn nearest_to_indexed(index: u8) -> u8 {
    match index {
        0..=15 => index,
        16..=231 => {
            let cube = index - 16;
            let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
            nearest(level(cube / 36), level(cube / 6 % 6), level(cube % 6))
        }
        232..=255 => {
            let grey = 8 + 10 * (index - 232);
            nearest(grey, grey, grey)
        }
    }
}

/// The basic colour that is nearest to this one.
pub(super) fn nearest(red: u8, green: u8, blue: u8) -> u8 {
    let distance = |(r, g, b): (u8, u8, u8)| {
        let square = |one: u8, other: u8| u32::from(one.abs_diff(other)).pow(2);
        square(r, red) + square(g, green) + square(b, blue)
    };
    let numbered = (0..).zip(PALETTE);
    let found = numbered.min_by_key(|(_, colour)| distance(*colour));
    found.map_or(7, |(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_colours_become_the_nearest_basic_one() {
        let check = |(red, green, blue): (u8, u8, u8), expected: u8| {
            assert_eq!(nearest(red, green, blue), expected, "{red} {green} {blue}");
        };
        check((0, 0, 0), 0);
        check((255, 255, 255), 15);
        check((255, 10, 10), 9);
        check((190, 0, 10), 1);
        check((130, 130, 120), 8);
        for (index, expected) in [
            (0, 0),
            (9, 9),
            (16, 0),
            (196, 9),
            (21, 4),
            (46, 10),
            (231, 15),
            (232, 0),
            (244, 8),
            (255, 7),
        ] {
            assert_eq!(nearest_to_indexed(index), expected, "{index}");
        }
    }
}
