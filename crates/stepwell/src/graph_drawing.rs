//! A model's layers as a drawing: parts of the input on top, the logits at the bottom.

use std::collections::BTreeMap;
use std::path::Path;

use layout::backends::svg::SVGWriter;
use layout::core::base::Orientation;
use layout::core::color::Color;
use layout::core::geometry::Point;
use layout::core::style::StyleAttr;
use layout::std_shapes::shapes::{Arrow, Element, ShapeKind};
use layout::topo::layout::VisualGraph;
use stepwell_cli::{Failure, outputs};
use stepwell_settings::LayerConfig;

const FONT: usize = 12;
/// Width and height of a character, in the unit of the drawing.
const CHARACTER: (f64, f64) = (0.65 * FONT as f64, 1.3 * FONT as f64);
/// Space around a box's text.
const MARGIN: f64 = 12.0;

/// Draws `layers` to the SVG file `path`.
///
/// # Errors
/// A file that cannot be written.
pub(crate) fn write(path: &Path, layers: &[LayerConfig]) -> Result<(), Failure> {
    outputs::check(&[("--svg", Some(path))], &[])?;
    Ok(outputs::write_text(path, &drawing(layers))?)
}

fn drawing(layers: &[LayerConfig]) -> String {
    let mut graph = VisualGraph::new(Orientation::TopToBottom);
    let mut nodes = BTreeMap::new();
    for layer in layers {
        let own = graph.add_node(element(&text(layer), "#e8f1fa"));
        for input in &layer.inputs {
            let input = *nodes
                .entry(input.as_str())
                .or_insert_with(|| graph.add_node(element(input, "#fdf3dc")));
            graph.add_edge(Arrow::simple(""), input, own);
        }
        nodes.insert(&layer.name, own);
    }
    let mut svg = SVGWriter::new();
    graph.do_it(false, false, false, &mut svg);
    svg.finalize()
}

/// Name of a layer, and below it what it computes.
fn text(layer: &LayerConfig) -> String {
    let function = layer.function.map(|function| function.name().to_owned());
    let sizes = [layer.width, layer.dim].map(|size| size.map(|size| size.to_string()));
    let details: Vec<String> = sizes.into_iter().chain([function]).flatten().collect();
    format!("{}\n{} {}", layer.name, layer.kind.name(), details.join(" ")).trim_end().to_owned()
}

/// A box with a text of some lines.
fn element(text: &str, color: &str) -> Element {
    let columns = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    let (width, height) = CHARACTER;
    let size =
        Point::new(columns as f64 * width + MARGIN, text.lines().count() as f64 * height + MARGIN);
    let look = StyleAttr::new(Color::fast("#37474f"), 1, Color::from_name(color), 4, FONT);
    Element::create(ShapeKind::new_box(text), look, Orientation::TopToBottom, size)
}

#[cfg(test)]
mod tests {
    use stepwell_settings::LayerKind;

    use super::*;

    #[test]
    fn every_layer_and_part_of_the_input_has_a_box_and_every_input_an_arrow() {
        let layers = [
            LayerConfig {
                width: Some(64),
                ..LayerConfig::new("a<b", LayerKind::Linear, &["dense"])
            },
            LayerConfig::new("both", LayerKind::Concat, &["a<b", "embeddings", "dense"]),
            LayerConfig {
                width: Some(1),
                ..LayerConfig::new("logit", LayerKind::Linear, &["both"])
            },
        ];
        let svg = drawing(&layers);
        roxmltree::Document::parse(&svg).unwrap();
        for text in ["a&lt;b", "linear 64", "both", "concat", "embeddings", "dense", "logit"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert_eq!(svg.matches("<rect").count(), 5, "{svg}");
        assert_eq!(svg.matches("<path").count(), 5, "{svg}");
    }
}
