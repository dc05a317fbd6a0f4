// library_memory: what a GPU's libraries take of its memory beside what is planned.
//
// Kernels' code and handles come with the first use, and NCCL's buffers with the first exchange of
// each communicator, all after the plan: an automatic microbatch must leave them room. No library
// says how much. Measured by others between GPUs joined by NVLink: 544 MB for a communicator of
// two ranks, 688 MB for more, and more of them take more (NVIDIA/nccl, issues 864 and 964).
#pragma once

#include <cstddef>

#include <mpt/train/layout.hpp>
#include <parallel/mesh/layout.hpp>
#include <parallel/train/process_groups.hpp>

namespace mpt {

/// Bytes, about, of a rank on a GPU: 512 MiB, and 704 MiB for each communicator of several ranks:
/// two of all, those of each axis, and both directions between the stages of a pipeline.
[[nodiscard]] inline std::size_t library_memory(training_layout const& layout,
                                                parallel::zero::level level) {
  namespace axis = parallel::axis;
  auto const many = [](parallel::index ranks) { return ranks > 1 ? 1 : 0; };
  auto const place = parallel::train::place_in(layout, level);
  int const communicators = 2 * many(layout.ranks()) + 3 * many(layout.degree<axis::pipeline>()) +
                            2 * many(place.shards) + many(place.replicas) +
                            many(layout.degree<axis::context>()) +
                            many(layout.degree<axis::tensor>());
  constexpr std::size_t mib = std::size_t{1} << 20;
  return (512 + 704 * static_cast<std::size_t>(communicators)) * mib;
}

}  // namespace mpt
