//! Measured blocks, and statistics about them.

/// One figure for each counted block of each variant.
#[derive(Debug)]
pub(crate) struct Samples(Vec<Vec<f64>>);

/// The median of a variant's blocks, and the quartiles around it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    /// The lower quartile.
    pub(crate) lower: f64,
    /// The upper quartile.
    pub(crate) upper: f64,
}

impl Samples {
    pub(crate) fn new(variants: usize) -> Self {
        Self(vec![Vec::new(); variants])
    }

    pub(crate) fn add(&mut self, variant: usize, value: f64) {
        self.0[variant].push(value);
    }

    pub(crate) fn map_each(self, change: impl Fn(f64) -> f64) -> Self {
        let blocks = self.0.into_iter();
        Self(
            blocks
                .map(|blocks| blocks.into_iter().map(&change).collect())
                .collect(),
        )
    }

    pub(crate) fn spreads(&self) -> Vec<Spread> {
        self.0.iter().map(|blocks| spread(blocks)).collect()
    }
}

fn spread(blocks: &[f64]) -> Spread {
    let mut sorted = blocks.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |part: f64| sorted[(part * (sorted.len() - 1) as f64).round() as usize];
    Spread {
        median: at(0.5),
        lower: at(0.25),
        upper: at(0.75),
    }
}
