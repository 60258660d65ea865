//! Edges of a graph with a few vertices that have most: the recursive matrix of Chakrabarti, Zhan and Faloutsos (2004).

use std::io::{self, Write};

use super::{Maker, put};

/// Shares of the four quarters of the matrix, of 1,000, added up.
const QUARTERS: [u64; 3] = [570, 760, 950];

pub(super) fn write<W: Write>(
    vertices: u32,
    weighted: bool,
    mut chance: fastrand::Rng,
    to: &mut Maker<'_, W>,
) -> io::Result<()> {
    let vertices = vertices.max(1);
    let levels = 32 - (vertices - 1).leading_zeros();
    while to.wants_more() {
        let (mut from, mut into) = (0u32, 0u32);
        let mut random = 0u64;
        for level in 0..levels {
            // Six levels to one random number: ten bits each.
            if level % 6 == 0 {
                random = chance.u64(..);
            }
            let part = (random & 1_023) * 1_000 / 1_024;
            random >>= 10;
            let quarter = QUARTERS.iter().filter(|end| part >= **end).count() as u32;
            from = from << 1 | quarter >> 1;
            into = into << 1 | quarter & 1;
        }
        if from >= vertices || into >= vertices {
            continue;
        }
        let weight = weighted.then(|| chance.u64(1..100));
        to.row(|line| {
            put(from.into(), line);
            line.push(b'\t');
            put(into.into(), line);
            if let Some(weight) = weight {
                line.push(b'\t');
                put(weight, line);
            }
            line.push(b'\n');
        })?;
    }
    Ok(())
}
