//! Models with a separate graph per layer, so that a parameter server supplies the parameters of
//! one layer at a time.

use std::ops::Range;

use rayon::prelude::*;
use stepwell_nn::{
    Activation, Block, BlockGradients, ClassSums, Convolution, Graph, GraphBuilder, GraphError,
    Image, InputShape, Linear, Matrix, Pool, Pooling, Source, Window, Workspace, softmax_losses,
};

use crate::images::{CLASSES, Images};

/// Rows and columns of an image.
pub(super) const SIDE: usize = 28;
/// Examples per block when evaluating a whole set.
const BLOCK: usize = 500;

/// A layer, together with following operations without parameters.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) graph: Graph<f32>,
    /// Columns of its input.
    inputs: usize,
    /// Number of values in each of its sums.
    pub(super) fan_in: usize,
}

/// A model.
#[derive(Debug)]
pub(super) struct Net {
    pub(super) name: &'static str,
    pub(super) layers: Vec<Layer>,
}

/// Builds layers in sequence.
struct Builder {
    layers: Vec<Layer>,
    columns: usize,
}

impl Builder {
    /// Adds a layer with `fan_in` values per sum, built by `add` from the current columns. Its
    /// input is an embedding of the graph, so that it gets a gradient.
    fn layer(
        &mut self,
        fan_in: usize,
        add: impl FnOnce(&mut GraphBuilder<f32>, Source) -> Result<(), GraphError>,
    ) -> Result<(), GraphError> {
        let inputs = self.columns;
        let of = if self.layers.is_empty() { [0, inputs] } else { [inputs, 0] };
        let mut builder = GraphBuilder::new(InputShape { embedding: of[0], dense: of[1] });
        add(&mut builder, Source::Columns(0..inputs))?;
        let graph = builder.build()?;
        self.columns = graph.outputs();
        self.layers.push(Layer { graph, inputs, fan_in });
        Ok(())
    }

    fn linear(&mut self, outputs: usize, activation: Activation) -> Result<(), GraphError> {
        let inputs = self.columns;
        let layer = Linear { inputs, outputs, bias: true, activation };
        self.layer(inputs, |builder, x| builder.add("linear", layer, &[x]).map(drop))
    }

    /// A convolution of 5 x 5, and a maximum over each 2 x 2 places.
    fn convolution(&mut self, image: Image, channels: usize) -> Result<Image, GraphError> {
        let window =
            |side, stride| Window { kernel: [side; 2], stride: [stride; 2], padding: [0; 2] };
        let activation = Activation::Relu;
        let layer = Convolution { image, channels, window: window(5, 1), bias: true, activation };
        let [height, width] = [image.height - 4, image.width - 4];
        let pooling = Pooling {
            image: Image { channels, height, width },
            window: window(2, 2),
            pool: Pool::Max,
        };
        self.layer(image.channels * 25, |builder, x| {
            let made = builder.add("convolution", layer, &[x])?;
            builder.add("pooling", pooling, &[Source::Node(made)]).map(drop)
        })?;
        Ok(Image { channels, height: height / 2, width: width / 2 })
    }
}

impl Net {
    /// Three hidden layers with `neurons` rectified neurons each.
    pub(super) fn fcnn(columns: usize, neurons: usize) -> Result<Self, GraphError> {
        let mut builder = Builder { layers: Vec::new(), columns };
        for _ in 0..3 {
            builder.linear(neurons, Activation::Relu)?;
        }
        builder.linear(CLASSES, Activation::Identity)?;
        Ok(Self { name: "fcnn", layers: builder.layers })
    }

    /// Two convolutions with poolings, and two fully connected layers.
    pub(super) fn cnn() -> Result<Self, GraphError> {
        let image = Image { channels: 1, height: SIDE, width: SIDE };
        let mut builder = Builder { layers: Vec::new(), columns: image.columns() };
        let image = builder.convolution(image, 8)?;
        builder.convolution(image, 16)?;
        builder.linear(64, Activation::Relu)?;
        builder.linear(CLASSES, Activation::Identity)?;
        Ok(Self { name: "cnn", layers: builder.layers })
    }

    /// Number of parameters of all layers.
    pub(super) fn parameter_count(&self) -> usize {
        self.layers.iter().map(|layer| layer.graph.parameter_count()).sum()
    }

    /// Share of a mini-batch's time of each layer's forward and backward pass.
    pub(super) fn shares(&self) -> Vec<[f64; 2]> {
        let flops = |layer: &Layer| layer.graph.flops_per_example();
        let of = self.layers.iter().map(flops).map(|of| [of.forward as f64, of.backward as f64]);
        let all: f64 = of.clone().flatten().sum();
        of.map(|passes| passes.map(|pass| pass / all)).collect()
    }

    /// Sums of the losses of all examples, and of correct classes.
    pub(super) fn look(&self, images: &Images, parameters: &[Vec<f32>]) -> ClassSums {
        let starts: Vec<usize> = (0..images.count()).step_by(BLOCK).collect();
        let sums = starts.into_par_iter().map_init(
            || Desk::new(self, BLOCK),
            |desk, start| {
                let examples = start..images.count().min(start + BLOCK);
                desk.begin(images, examples.clone());
                for (layer, parameters) in parameters.iter().enumerate() {
                    desk.forward(self, layer, parameters);
                }
                let labels = &images.labels[examples];
                softmax_losses(desk.logits(), labels, CLASSES, labels.len(), &mut [])
            },
        );
        // Collected first, so that they are added in order.
        let mut all = ClassSums::default();
        sums.collect::<Vec<_>>().into_iter().for_each(|sums| all.add(sums));
        all
    }
}

/// Buffers for the passes over a mini-batch, layer by layer.
#[derive(Debug)]
pub(super) struct Desk {
    workspaces: Vec<Workspace<f32>>,
    rows: usize,
    /// Input of each layer, and the output of the last. // (layers + 1)
    values: Vec<Vec<f32>>,
    /// Gradient of the input of the layer above.
    gradient: Vec<f32>,
}

impl Desk {
    pub(super) fn new(net: &Net, rows_max: usize) -> Self {
        let workspaces = net.layers.iter().map(|layer| Workspace::new(&layer.graph, rows_max));
        let values = vec![Vec::new(); net.layers.len() + 1];
        Self { workspaces: workspaces.collect(), rows: 0, values, gradient: Vec::new() }
    }

    /// Loads the features of a mini-batch.
    pub(super) fn begin(&mut self, images: &Images, examples: Range<usize>) {
        self.rows = examples.len();
        let columns = images.columns;
        self.values[0].clear();
        let features = &images.features[examples.start * columns..examples.end * columns];
        self.values[0].extend_from_slice(features);
    }

    pub(super) fn logits(&self) -> &[f32] {
        &self.values[self.values.len() - 1]
    }

    /// Forward pass of a layer.
    pub(super) fn forward(&mut self, net: &Net, number: usize, parameters: &[f32]) {
        let layer = &net.layers[number];
        let (below, above) = self.values.split_at_mut(number + 1);
        above[0].resize(self.rows * layer.graph.outputs(), 0.0);
        let x = Matrix::packed(&below[number], self.rows, layer.inputs);
        let block = Block { x, first_order: &[] };
        layer.graph.forward(parameters, &block, &mut self.workspaces[number], &mut above[0]);
    }

    /// Computes the gradient of the logits, for a mean over `of` examples.
    pub(super) fn loss(&mut self, labels: &[u8], of: usize) {
        self.gradient.resize(self.rows * CLASSES, 0.0);
        let logits = &self.values[self.values.len() - 1];
        softmax_losses(logits, labels, CLASSES, of, &mut self.gradient);
    }

    /// Backward pass of a layer: computes the gradient of its parameters.
    pub(super) fn backward(
        &mut self,
        net: &Net,
        number: usize,
        parameters: &[f32],
        gradient: &mut [f32],
    ) {
        let layer = &net.layers[number];
        let x = Matrix::packed(&self.values[number], self.rows, layer.inputs);
        let block = Block { x, first_order: &[] };
        let mut d_x = vec![0.0; self.rows * layer.graph.input().embedding];
        let d_y = std::mem::take(&mut self.gradient);
        let gradients = BlockGradients { x: &mut d_x, first_order: &mut [], parameters: gradient };
        let workspace = &mut self.workspaces[number];
        layer.graph.backward(parameters, &block, &d_y, workspace, gradients);
        self.gradient = d_x;
    }
}
