// Golden numbers of an optimizer: steps over given gradients, one file each (tests/golden).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <support/golden_tensor.hpp>

namespace test {

/// Follows the steps in a golden file from its "param" on. For every step, counted from 0,
/// update(values, states, gradients, lr, step) makes it and compare(what, got, expected) is told
/// the weights ("params") and each of `states`. The states begin at zero; `suffix` of what is
/// expected says by which run it was made ("" in fp32, "64" in fp64).
template <class A, class Update, class Compare>
void follow_golden(std::string const& name, std::string const& suffix,
                   std::vector<std::string> const& states, Update&& update, Compare&& compare) {
  parallel::checkpoint::safetensors_file const file(golden_folder() / name);
  auto values = golden_tensor<A>(file, "param");
  auto const gradients = golden_tensor<A>(file, "grads");
  auto const lr = golden_tensor<double>(file, "lr");
  std::vector<std::vector<A>> own(states.size(), std::vector<A>(values.size()));
  for (std::size_t step = 0; step < lr.size(); ++step) {
    auto const row = [&](std::vector<A> const& all) {
      auto const begin = all.begin() + static_cast<std::ptrdiff_t>(step * values.size());
      return std::vector<A>(begin, begin + std::ssize(values));
    };
    update(values, own, row(gradients), lr[step], step);
    compare("params", values, row(golden_tensor<A>(file, "params" + suffix)));
    for (std::size_t i = 0; i < states.size(); ++i)
      compare(states[i], own[i], row(golden_tensor<A>(file, states[i] + suffix)));
  }
}

}  // namespace test
