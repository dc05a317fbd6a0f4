// canonical_order: the layouts that zero::reduction_order::canonical_tree refuses.
// (zero::partitioned_unit checks that the number of shards is a power of two if there are
// replicas.)
#pragma once

#include <string>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/mesh/layout.hpp>
#include <parallel/train/clipping.hpp>

namespace parallel::train {

/// One sentence part for each rule that the layout breaks: "axis degree: rule; what to set". The
/// leaves are whole microbatches, of which ranks of the context axis hold parts (why these cannot
/// be leaves: docs/architecture.md); and the squares of a row are added in one order where the row
/// is not sliced.
[[nodiscard]] inline std::vector<std::string> broken_by_canonical_order(
    training_layout const& layout, clipping_kind clip) {
  std::vector<std::string> out;
  if (int const context = layout.degree<axis::context>(); context > 1)
    out.push_back(concat("context ", context,
                         ": the canonical order of reductions sums whole microbatches, of which "
                         "these ranks hold parts; set context to 1"));
  if (int const tensor = layout.degree<axis::tensor>();
      tensor > 1 && clip == clipping_kind::adaptive)
    out.push_back(concat("tensor ", tensor,
                         ": adaptive clipping in the canonical order of reductions needs whole "
                         "rows of weights; set tensor to 1, or clip by norm or value"));
  return out;
}

/// Throws the first broken rule.
inline void check_canonical_order(training_layout const& layout, clipping_kind clip) {
  auto const broken = broken_by_canonical_order(layout, clip);
  require(broken.empty(), "layout: ", broken.empty() ? std::string() : broken.front());
}

}  // namespace parallel::train
