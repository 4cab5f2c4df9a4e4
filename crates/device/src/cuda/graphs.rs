//! Graphs of the driver's library: operations of a stream that are sent in one piece.

#![expect(unsafe_code, reason = "functions of a foreign library are called")]

use cudarc::driver::sys::{self, CUgraph, CUgraphExec, CUstreamCaptureMode_enum as Mode};

use super::calls::{Called, Fault, GraphExec, Handle, Stream, check};

/// Captures what `give` gives `stream`, in place of doing it. Other streams and threads go on.
///
/// # Errors
/// Those of `give`, and what the library says.
pub(super) fn capture<E: From<Fault>>(
    stream: Stream,
    give: impl FnOnce() -> Result<(), E>,
) -> Result<GraphExec, E> {
    // SAFETY: the stream has not ended, and nobody else gives it anything meanwhile.
    check("cuStreamBeginCapture", unsafe {
        sys::cuStreamBeginCapture_v2(stream.0, Mode::CU_STREAM_CAPTURE_MODE_RELAXED)
    })?;
    let given = give();
    let mut graph: CUgraph = std::ptr::null_mut();
    // SAFETY: the stream is captured; the place lives. It ends even where something was refused.
    let ended = unsafe { sys::cuStreamEndCapture(stream.0, &raw mut graph) };
    let made = given.and_then(|()| {
        check("cuStreamEndCapture", ended)?;
        let mut exec: CUgraphExec = std::ptr::null_mut();
        // SAFETY: the graph was just captured; the place lives.
        let code = unsafe { sys::cuGraphInstantiateWithFlags(&raw mut exec, graph, 0) };
        check("cuGraphInstantiate", code)?;
        Ok(Handle(exec))
    });
    if !graph.is_null() {
        // SAFETY: the graph is nobody else's; what was made of it stands alone.
        let _ = unsafe { sys::cuGraphDestroy(graph) };
    }
    made
}

/// Gives `stream` all of a graph.
pub(super) fn launch(graph: GraphExec, stream: Stream) -> Called<()> {
    // SAFETY: neither has ended, and what operations use is kept until they are over.
    check("cuGraphLaunch", unsafe { sys::cuGraphLaunch(graph.0, stream.0) })
}

pub(super) fn end(graph: GraphExec) {
    // SAFETY: the graph has not ended, and no run of it is under way.
    let _ = unsafe { sys::cuGraphExecDestroy(graph.0) };
}
