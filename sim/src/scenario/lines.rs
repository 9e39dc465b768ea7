//! Where each step stands in the file that it was read from, for whoever has to find the one that failed.
//!
//! Lines lie beside the steps and not in them: they are no part of what a scenario says, and a scenario that was drawn,
//! shrunk or built by hand has none. Steps are numbered as the executor numbers them, a block before what is in it.

use super::{Branch, Scenario, Step};

/// The line of each step, by its number. Two scenarios are equal wherever they stand, so that all `Lines` are equal.
#[derive(Clone, Debug, Default)]
pub struct Lines(pub(super) Vec<u32>);

impl PartialEq for Lines {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Scenario {
    /// The line of a step in the file; of a step that a seed drew, the line that it was drawn from. `None` where the steps
    /// are not those of a file any more.
    pub fn line_of(&self, step: u32) -> Option<u32> {
        let lines = &self.lines.0;
        let steps: usize = self.steps.iter().map(count).sum();
        lines.get(step as usize).copied().filter(|_| lines.len() == steps)
    }
}

/// A step and those in it.
pub(super) fn count(step: &Step) -> usize {
    let all = |steps: &[Step]| steps.iter().map(count).sum::<usize>();
    1 + match step {
        Step::Client(Branch { steps, .. }) | Step::Repeat { steps, .. } | Step::Pipeline(steps) => all(steps),
        Step::Parallel(branches) => branches.iter().map(|branch| 1 + all(&branch.steps)).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::{parse, unfold};

    const FILE: &str = r#"scenario "t"
draw broker durability="os | always"

topic orders
parallel {
    client a {
        produce orders value="1"
    }
    client b {
        repeat 2 {
            draw produce orders partition="0 | 1"
        }
    }
}
random steps=5 {
    weights pipeline=1
}
pipeline {
    fetch orders partition=0
}
stop
"#;

    #[test]
    fn every_step_knows_the_line_that_it_comes_from() {
        let scenario = parse("t.kdl", FILE).expect("a scenario");
        let drawn = unfold(&scenario, 3);
        let lines: Vec<u32> = (0..).map_while(|step| drawn.line_of(step)).collect();
        assert_eq!(lines[..8], [4, 5, 6, 7, 9, 10, 11, 15]);
        assert_eq!(lines[lines.len() - 3..], [18, 19, 21]);
        assert!(lines[8..lines.len() - 3].iter().all(|line| *line == 15), "{lines:?}");
    }

    #[test]
    fn steps_that_are_no_longer_those_of_the_file_have_no_line() {
        let mut scenario = parse("t.kdl", FILE).expect("a scenario");
        assert_eq!(scenario.line_of(0), Some(4));
        scenario.steps.remove(1);
        assert_eq!(scenario.line_of(0), None);
    }
}
