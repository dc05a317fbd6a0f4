// optimizer_groups: how a model's parameters are trained: each by one of several optimizers of one
// type (any_optimizer where they are of several kinds), or not at all.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <parallel/unit/unit.hpp>

namespace parallel::train {

template <class Optimizer>
struct optimizer_groups {
  optimizer_groups(Optimizer optimizer)  // NOLINT(google-explicit-constructor)
      : optimizers{std::move(optimizer)}, key_of(one_segment{}) {}

  /// `key_of_name` gives, by global name, whether a parameter is trained and by which of
  /// `by_group`.
  optimizer_groups(std::vector<Optimizer> by_group,
                   std::function<segment_key(std::string const&)> key_of_name)
      : optimizers(std::move(by_group)), key_of(std::move(key_of_name)) {
    require(!optimizers.empty(), "there is no optimizer; give one for every group");
  }

  std::vector<Optimizer> optimizers;  ///< by group
  std::function<segment_key(std::string const&)> key_of;
};

}  // namespace parallel::train
