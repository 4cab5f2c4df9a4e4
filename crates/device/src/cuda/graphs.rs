//! Graphs of the driver's library: operations of a stream that are submitted as one unit.

#![expect(unsafe_code, reason = "functions of a foreign library are called")]

use cudarc::driver::sys::{self, CUgraph, CUgraphExec, CUstreamCaptureMode_enum as Mode};

use super::calls::{Called, Fault, GraphExec, Handle, Stream, check};

/// Captures the operations that `give` submits to `stream`, instead of running them. Other streams
/// and threads continue.
///
/// # Errors
/// Errors of `give`, and the library's.
pub(super) fn capture<E: From<Fault>>(
    stream: Stream,
    give: impl FnOnce() -> Result<(), E>,
) -> Result<GraphExec, E> {
    // SAFETY: the stream has not ended, and nobody else submits to it during the capture.
    check("cuStreamBeginCapture", unsafe {
        sys::cuStreamBeginCapture_v2(stream.0, Mode::CU_STREAM_CAPTURE_MODE_RELAXED)
    })?;
    let given = give();
    let mut graph: CUgraph = std::ptr::null_mut();
    // SAFETY: the stream is being captured; the target is valid. Capture ends even after an error.
    let ended = unsafe { sys::cuStreamEndCapture(stream.0, &raw mut graph) };
    let made = given.and_then(|()| {
        check("cuStreamEndCapture", ended)?;
        let mut exec: CUgraphExec = std::ptr::null_mut();
        // SAFETY: the graph was just captured; the target is valid.
        let code = unsafe { sys::cuGraphInstantiateWithFlags(&raw mut exec, graph, 0) };
        check("cuGraphInstantiate", code)?;
        Ok(Handle(exec))
    });
    if !graph.is_null() {
        // SAFETY: the graph has no other users; what was instantiated from it is independent.
        let _ = unsafe { sys::cuGraphDestroy(graph) };
    }
    made
}

/// Submits a graph to `stream`.
pub(super) fn launch(graph: GraphExec, stream: Stream) -> Called<()> {
    // SAFETY: neither has ended, and what operations use is kept alive until they are over.
    check("cuGraphLaunch", unsafe { sys::cuGraphLaunch(graph.0, stream.0) })
}

pub(super) fn end(graph: GraphExec) {
    // SAFETY: the graph has not ended, and it isn't running.
    let _ = unsafe { sys::cuGraphExecDestroy(graph.0) };
}
