//! Random data: lines in Criteo's layout, most of them examples.

use stepwell_base::random::finalize;

use crate::dice::Dice;

/// Integers and ids per line.
const DENSE: usize = 13;
const SLOTS: usize = 26;

/// Parameters of a case's text, which determine its bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Text {
    seed: u64,
    /// Training files, in order.
    pub(crate) parts: Vec<Part>,
    /// An evaluation file, unless the tail of the others is for evaluation.
    pub(crate) evaluation: Option<Part>,
    ids: Ids,
    /// Malformed lines per thousand.
    pub(crate) malformed: u64,
}

/// One file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    number: u64,
    lines: u64,
    /// Percentage of lines that end with CR LF.
    returns: u64,
    /// Whether the last line has a line end; without one, it is malformed.
    closed: bool,
}

/// Distribution of ids.
#[derive(Clone, Debug, PartialEq)]
struct Ids {
    /// Ids per slot.
    vocabulary: u64,
    /// 1 for a uniform distribution; larger values favor the first ids.
    skew: f64,
    /// Empty ids per thousand, and long ones.
    empty: u64,
    long: u64,
    /// Whether all slots have the same texts.
    shared: bool,
    spelling: Spelling,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Spelling {
    Hexadecimal,
    Decimal,
    /// Any bytes except tabs and line ends.
    Bytes,
}

/// Bytes of a file, and whether each of its lines is an example.
#[derive(Debug, Default)]
pub(crate) struct Drawn {
    pub(crate) bytes: Vec<u8>,
    pub(crate) examples: Vec<bool>,
}

impl Text {
    /// Draws text with `lines` training lines.
    pub(crate) fn draw(dice: &mut Dice, lines: u64) -> Self {
        let malformed = if dice.chance(40) { dice.pick(&[1, 20, 200]) } else { 0 };
        let count = if dice.chance(50) { 1 } else { dice.within(2, 4).min(lines) };
        let mut left = lines;
        let mut parts = Vec::new();
        for number in 0..count {
            let rest = count - number - 1;
            let lines = if rest == 0 { left } else { dice.magnitude(1, left - rest) };
            left -= lines;
            parts.push(Part::draw(dice, number, lines, malformed > 0));
        }
        let evaluation = dice.chance(20).then(|| {
            let lines = dice.magnitude(1, 300);
            Part::draw(dice, count, lines, malformed > 0)
        });
        Self { seed: dice.any(), parts, evaluation, ids: Ids::draw(dice), malformed }
    }

    /// Total lines of the training files.
    pub(crate) fn lines(&self) -> u64 {
        self.parts.iter().map(|part| part.lines).sum()
    }

    /// Generates the contents of a file.
    pub(crate) fn content(&self, part: &Part) -> Drawn {
        let mut dice = Dice::new(self.seed, &format!("part {}", part.number));
        let mut drawn = Drawn::default();
        for number in 1..=part.lines {
            let malformed = dice.below(1000) < self.malformed;
            let mut line = self.line(&mut dice);
            if malformed {
                spoil(&mut line, &mut dice);
            }
            drawn.bytes.extend(line.join(&b'\t'));
            let closed = part.closed || number < part.lines;
            if closed {
                let end: &[u8] = if dice.chance(part.returns) { b"\r\n" } else { b"\n" };
                drawn.bytes.extend_from_slice(end);
            }
            // An empty rest without a line end isn't a line.
            if closed || !line.join(&b'\t').is_empty() {
                drawn.examples.push(closed && !malformed);
            }
        }
        drawn
    }

    /// Fields of an example.
    fn line(&self, dice: &mut Dice) -> Vec<Vec<u8>> {
        let mut fields = vec![Vec::new()];
        fields.extend((0..DENSE).map(|_| number(dice)));
        let mut clicks = 20;
        for slot in 0..SLOTS {
            let (number, id) = self.ids.draw_one(dice, slot as u64);
            // Makes the data learnable: even ids in two slots are clicked more often.
            clicks += if slot < 2 && number % 2 == 0 { 30 } else { 0 };
            fields.push(id);
        }
        fields[0].push(if dice.chance(clicks) { b'1' } else { b'0' });
        fields
    }
}

impl Part {
    fn draw(dice: &mut Dice, number: u64, lines: u64, may_be_open: bool) -> Self {
        let returns = dice.pick(&[0, 0, 0, 100, 30]);
        Self { number, lines, returns, closed: !(may_be_open && dice.chance(15)) }
    }
}

impl Ids {
    fn draw(dice: &mut Dice) -> Self {
        Self {
            vocabulary: dice.pick(&[1, 6, 40, 300, 300, 3000, 3000, 1 << 40]),
            skew: dice.pick(&[1.0, 2.0, 4.0]),
            empty: dice.pick(&[0, 30, 300]),
            long: dice.pick(&[0, 0, 1, 50]),
            shared: dice.chance(30),
            spelling: dice.pick(&[Spelling::Hexadecimal, Spelling::Decimal, Spelling::Bytes]),
        }
    }

    /// Draws the number of an id of `slot`, and its text.
    fn draw_one(&self, dice: &mut Dice, slot: u64) -> (u64, Vec<u8>) {
        let number = (self.vocabulary as f64 * dice.part().powf(self.skew)) as u64;
        let kind = dice.below(1000);
        if kind < self.empty {
            return (0, Vec::new());
        }
        let name = finalize(number ^ if self.shared { 0 } else { slot << 48 });
        let mut text = match self.spelling {
            Spelling::Hexadecimal => format!("{:08x}", name as u32).into_bytes(),
            Spelling::Decimal => (name % 10_000_000_000).to_string().into_bytes(),
            Spelling::Bytes => (0..1 + name % 12).map(|at| plain(finalize(name + at))).collect(),
        };
        if kind < self.empty + self.long {
            let length = 1 + finalize(name) % 3000;
            text.extend((0..length).map(|at| plain(finalize(name ^ at))));
        }
        (number, text)
    }
}

/// A byte that isn't a separator.
fn plain(number: u64) -> u8 {
    match number as u8 {
        b'\t' | b'\n' | b'\r' => b' ',
        other => other,
    }
}

fn number(dice: &mut Dice) -> Vec<u8> {
    let text = match dice.below(20) {
        0..4 => String::new(),
        4..8 => dice.below(10).to_string(),
        8..18 => dice.magnitude(1, 1_000_000).to_string(),
        18 => format!("-{}", dice.below(50)),
        _ => match dice.below(12) {
            0 => i64::MAX.to_string(),
            1 => i64::MIN.to_string(),
            2 => "-0".to_owned(),
            3 => "9223372036854775808".to_owned(),
            4..8 => dice.pick(&["1.5", "+.5", "-2.25e3", "5.0", "+7", "1e-9"]).to_owned(),
            _ => format!("000{}", dice.any() >> 40),
        },
    };
    text.into_bytes()
}

/// Makes an example malformed in one of many ways.
fn spoil(line: &mut Vec<Vec<u8>>, dice: &mut Dice) {
    let at = dice.below(line.len() as u64) as usize;
    match dice.below(8) {
        0 => *line = vec![Vec::new()],
        1 => line[0] = dice.pick(&["2", "", "-1", "1.5", " 1", "nan"]).into(),
        2 | 3 => {
            line.remove(at);
        }
        4 => line.insert(at, b"7".to_vec()),
        5 | 6 => {
            let wrong = ["x", "-", " 7", "7 ", "--1", "nan", "inf", "1e", "0x1", "1,5", "1.5.2"];
            line[1 + at % DENSE] = dice.pick(&wrong).into();
        }
        _ => *line = vec![(0..dice.below(400)).map(|_| plain(dice.any())).collect()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_a_function_of_its_description() {
        let (mut examples, mut others) = (0, 0);
        for seed in 0..60 {
            let text = Text::draw(&mut Dice::new(seed, "text"), 50 + seed);
            assert_eq!(text, Text::draw(&mut Dice::new(seed, "text"), 50 + seed));
            for part in text.parts.iter().chain(&text.evaluation) {
                let drawn = text.content(part);
                assert_eq!(drawn.bytes, text.content(part).bytes);
                let lines = drawn.bytes.split_inclusive(|byte| *byte == b'\n').count();
                assert_eq!(lines, drawn.examples.len(), "seed {seed}");
                let good = drawn.examples.iter().filter(|good| **good).count();
                (examples, others) = (examples + good, others + lines - good);
            }
            assert_eq!(text.lines(), 50 + seed);
        }
        assert!(examples > 2000 && others > 100, "{examples} examples, {others} other lines");
    }

    #[test]
    fn examples_have_their_columns_and_malformed_lines_do_not() {
        let mut dice = Dice::new(5, "text");
        let text = Text { malformed: 0, ..Text::draw(&mut dice, 40) };
        for _ in 0..300 {
            let mut line = text.line(&mut dice);
            assert_eq!(line.len(), 1 + DENSE + SLOTS);
            let whole = line.clone();
            spoil(&mut line, &mut dice);
            assert_ne!(line, whole);
        }
    }
}
