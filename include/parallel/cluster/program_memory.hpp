// program_memory: what a training program keeps in a device's memory in another form than this
// library does.
#pragma once

#include <parallel/core/config.hpp>

namespace parallel::cluster {

struct program_memory {
  double gradient_bytes = 4;  ///< of a gradient that a rank holds
  /// Of a parameter whose update a rank computes: fp32 values, optimizer states, fp32 gradients.
  double state_bytes = 12;
  double activations = 1;  ///< factor of the activations that this library keeps
  /// Sequence parallelism: inputs of products are gathered again for the weights' gradients, which
  /// this library keeps whole instead.
  bool gathers_again = false;
  /// Of each logit of a microbatch, which all exist at once; 0: they are computed in chunks.
  double logit_bytes = 0;
  bool gathers_logits = false;  ///< each tensor rank has the logits of the whole vocabulary
  /// Of each attention score of a microbatch that blocks keep; 0: fused attention keeps none.
  double score_bytes = 0;
  /// Of each element of the residual stream in each block that keeps its activations, in addition
  /// to these: norms that several kernels compute keep copies.
  double residual_bytes = 0;
  /// Bytes of workspaces, of exchanges' buffers, and of memory that fragments make unusable.
  double workspace = 0;
};

}  // namespace parallel::cluster
