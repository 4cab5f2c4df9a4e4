//! Random layers of `model.kind = graph`.

use std::fmt::Write as _;

use crate::dice::Dice;

/// Functions of `activate`.
const FUNCTIONS: [&str; 6] = ["relu", "sigmoid", "tanh", "gelu", "silu", "prelu"];

/// Layers that are drawn one after another.
struct Layers {
    text: String,
    outputs: Vec<Output>,
}

/// What a layer can read.
struct Output {
    name: String,
    /// Number of columns, if the data has no influence on it.
    width: Option<u64>,
    is_read: bool,
}

/// Draws layers as a TOML array; the last one has one column.
pub(super) fn draw(dice: &mut Dice, width_max: u64) -> String {
    let parts = ["input", "embeddings", "dense"];
    let part = |name: &&str| Output { name: (*name).to_owned(), width: None, is_read: false };
    let mut layers = Layers { text: String::new(), outputs: parts.iter().map(part).collect() };
    for number in 1..=dice.within(1, 8) {
        layers.draw_one(dice, &format!("layer{number}"), width_max);
    }
    let unread = layers.outputs[parts.len()..].iter().filter(|of| !of.is_read);
    // All features are read.
    let mut inputs: Vec<String> = unread.map(|of| of.name.clone()).collect();
    inputs.push("input".to_owned());
    if dice.chance(50) {
        inputs.push("first_order".to_owned());
    }
    layers.put("all", "concat", &inputs, "");
    layers.put("logit", "linear", &["all".to_owned()], ", width = 1");
    format!("[{}]", layers.text.trim_end_matches(", "))
}

impl Layers {
    fn draw_one(&mut self, dice: &mut Dice, name: &str, width_max: u64) {
        let input = self.pick(dice);
        let width = self.outputs[input].width;
        let alike = |of: &usize| width.is_some() && self.outputs[*of].width == width;
        let alike: Vec<usize> = (0..self.outputs.len()).filter(alike).collect();
        let (kind, inputs, more, width) = match dice.below(10) {
            0 => (
                "activate",
                vec![input],
                format!(", function = \"{}\"", dice.pick(&FUNCTIONS)),
                width,
            ),
            1 => ("layer_norm", vec![input], String::new(), width),
            2 => {
                let kind = dice.pick(&["unit_length", "batch_norm", "dice"]);
                (kind, vec![input], String::new(), width)
            }
            3 => {
                ("dropout", vec![input], format!(", rate = {}", dice.pick(&["0.1", "0.7"])), width)
            }
            4 => ("concat", vec![input, self.pick(dice)], String::new(), None),
            5 => (dice.pick(&["cross", "cross_vector"]), vec![input; 2], String::new(), width),
            6 if !alike.is_empty() => {
                let kind = dice.pick(&["add", "multiply"]);
                (kind, vec![input, dice.pick(&alike)], String::new(), width)
            }
            _ => {
                let width = dice.magnitude(1, width_max);
                let mut more = format!(", width = {width}");
                for (percent, setting) in
                    [(60, ", function = \"relu\""), (20, ", bias = false"), (10, ", zero = true")]
                {
                    more += if dice.chance(percent) { setting } else { "" };
                }
                ("linear", vec![input], more, Some(width))
            }
        };
        let names: Vec<String> = inputs.iter().map(|of| self.outputs[*of].name.clone()).collect();
        inputs.into_iter().for_each(|of| self.outputs[of].is_read = true);
        self.put(name, kind, &names, &more);
        self.outputs.push(Output { name: name.to_owned(), width, is_read: false });
    }

    /// Draws what to read, more often a late layer.
    fn pick(&self, dice: &mut Dice) -> usize {
        let count = self.outputs.len() as u64;
        dice.below(count).max(dice.below(count)) as usize
    }

    fn put(&mut self, name: &str, kind: &str, inputs: &[String], more: &str) {
        let inputs: Vec<String> = inputs.iter().map(|input| format!("\"{input}\"")).collect();
        let inputs = inputs.join(", ");
        let _ = write!(
            self.text,
            "{{ name = \"{name}\", kind = \"{kind}\", inputs = [{inputs}]{more} }}, "
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_are_drawn_and_each_layer_is_read() {
        let mut texts = String::new();
        for seed in 0..200 {
            let text = draw(&mut Dice::new(seed, "graph"), 20);
            assert_eq!(text, draw(&mut Dice::new(seed, "graph"), 20));
            for number in 1..=8 {
                let is_there = text.contains(&format!("name = \"layer{number}\""));
                let reads = text.matches(&format!("\"layer{number}\"")).count();
                assert!(!is_there || reads > 1, "{text}");
            }
            texts += &text;
        }
        let of_columns = ["activate", "layer_norm", "unit_length", "batch_norm", "dice", "dropout"];
        let kinds = of_columns.into_iter().chain(["cross_vector", "add"]);
        assert!(kinds.into_iter().all(|kind| texts.contains(&format!("\"{kind}\""))));
        assert!(texts.contains("\"multiply\"") && texts.contains("first_order"));
    }
}
